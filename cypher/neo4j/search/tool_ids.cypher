// The ids of the tools of some agents, each with its owner's.
// params: agent_ids list<string>
// returns: agent_id string, id string
UNWIND $agent_ids AS wanted
MATCH (agent:Agent {id: wanted})-[:OWNS]->(tool:Tool)
RETURN agent.id AS agent_id, tool.id AS id
ORDER BY agent_id, id
