// Whose tools have one of these names.
// params: names list<string>
// returns: agent_id string, name string
MATCH (agent:Agent)-[:OWNS]->(tool:Tool)
WHERE tool.name IN $names
RETURN agent.id AS agent_id, tool.name AS name ORDER BY agent_id, name
