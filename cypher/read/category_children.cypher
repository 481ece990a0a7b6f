// Which categories stand under which, in the order in which they are shown.
// params: none
// returns: parent string, child string, position integer
MATCH (parent:Category)-[has:HAS]->(child:Category)
RETURN parent.id AS parent, child.id AS child, has.position AS position ORDER BY parent, position, child
