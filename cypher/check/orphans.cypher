// Tools without an owner and agents that no source claims; a sound registry has none.
// params: none
// returns: kind string, id string
MATCH (tool:Tool) WHERE NOT EXISTS { MATCH (:Agent)-[:OWNS]->(tool) }
RETURN 'tool' AS kind, tool.id AS id
UNION ALL
MATCH (agent:Agent) WHERE NOT EXISTS { MATCH (:Source)-[:CLAIMS]->(agent) }
RETURN 'agent' AS kind, agent.id AS id
