// Forgets changes.
// params: ids list<string>
// returns: none
UNWIND $ids AS gone MATCH (change:Change {id: gone}) DETACH DELETE change
