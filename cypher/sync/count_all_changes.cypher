// How many changes are kept.
// params: none
// returns: changes integer
MATCH (change:Change) RETURN count(change) AS changes
