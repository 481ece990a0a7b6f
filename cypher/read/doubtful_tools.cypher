// The tools that wait for approval, were rejected, or are flagged.
// params: none
// returns: id string, agent_id string
MATCH (agent:Agent)-[:OWNS]->(tool:Tool)
WHERE coalesce(tool.pending, false) OR size(coalesce(tool.flags, [])) > 0
RETURN tool.id AS id, agent.id AS agent_id ORDER BY id
