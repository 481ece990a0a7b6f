// Removes the edges of tools whose vectors are others now.
// params: ids list<string>
// returns: none
UNWIND $ids AS changed MATCH (:Tool {id: changed})-[edge:SIMILAR]-(:Tool) DELETE edge
