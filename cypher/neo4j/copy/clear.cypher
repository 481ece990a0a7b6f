// Removes so many nodes of a copy that is of no use; says how many they were.
// params: rows integer
// returns: removed integer
MATCH (node:Agent|Tool|Source|Setting|Change|Taxonomy|Category|Toolset|Term)
WITH node LIMIT $rows
DETACH DELETE node
RETURN count(*) AS removed
