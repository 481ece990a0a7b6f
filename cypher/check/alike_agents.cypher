// Pairs of agents of which at least this share of the tools of each is at least so near to a tool of the other.
// params: cosine float, share float
// returns: one string, other string
MATCH (a:Agent)-[:OWNS]->(t:Tool)-[edge:SIMILAR]-(u:Tool)<-[:OWNS]-(b:Agent)
WHERE a.id < b.id AND edge.cosine >= $cosine
WITH a, b, count(DISTINCT t) AS near_of_a, count(DISTINCT u) AS near_of_b
MATCH (a)-[:OWNS]->(t:Tool)
WITH a, b, near_of_a, near_of_b, count(t) AS all_of_a
MATCH (b)-[:OWNS]->(u:Tool)
WITH a, b, near_of_a, near_of_b, all_of_a, count(u) AS all_of_b
WHERE near_of_a >= $share * all_of_a AND near_of_b >= $share * all_of_b
RETURN a.id AS one, b.id AS other ORDER BY one, other
