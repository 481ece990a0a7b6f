// Removes so many nodes of a copy that is of no use; says how many they were.
// params: labels list<string>, rows integer
// returns: removed integer
UNWIND $labels AS label
MATCH (node:$(label))
WITH node LIMIT $rows
DETACH DELETE node
RETURN count(*) AS removed
