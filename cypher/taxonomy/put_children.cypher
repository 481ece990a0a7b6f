// Sets which categories stand under which, in which place. A row: parent, child, position.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (parent:Category {id: row.parent})
MATCH (child:Category {id: row.child})
MERGE (parent)-[has:HAS]->(child)
SET has.position = row.position
