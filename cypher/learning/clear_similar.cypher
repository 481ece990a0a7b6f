// Removes all edges between tools whose vectors are near.
// params: none
// returns: none
MATCH (:Tool)-[edge:SIMILAR]->(:Tool) DELETE edge
