// How many edges there are between near tools, and of which revision the newest are.
// params: none
// returns: edges integer, revision integer
MATCH (:Tool)-[edge:SIMILAR]->(:Tool) RETURN count(edge) AS edges, max(edge.revision) AS revision
