// What skills teach, and what they need.
// params: none
// returns: skill string, other string
MATCH (skill:Agent)-[:TEACHES]->(tool:Tool) RETURN skill.id AS skill, tool.id AS other
UNION ALL
MATCH (skill:Agent)-[:NEEDS]->(server:Agent) RETURN skill.id AS skill, server.id AS other
