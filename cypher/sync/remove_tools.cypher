// Removes tools and their edges.
// params: ids list<string>
// returns: none
UNWIND $ids AS gone MATCH (tool:Tool {id: gone}) DETACH DELETE tool
