// The ids of an agent's tools.
// params: agent_id string
// returns: id string
MATCH (:Agent {id: $agent_id})-[:OWNS]->(tool:Tool) RETURN tool.id AS id ORDER BY id
