// Says which category a taxonomy begins with.
// params: id string, root string
// returns: none
MATCH (taxonomy:Taxonomy {id: $id})
MATCH (root:Category {id: $root})
MERGE (taxonomy)-[:ROOT]->(root)
