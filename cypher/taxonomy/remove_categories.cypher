// Removes categories and their edges.
// params: ids list<string>
// returns: none
UNWIND $ids AS gone MATCH (category:Category {id: gone}) DETACH DELETE category
