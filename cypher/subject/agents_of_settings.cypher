// Links what operators said of these agents with the agent, where that is there.
// params: agent_ids list<string>
// returns: none
MATCH (setting:Setting) WHERE setting.id IN $agent_ids AND NOT EXISTS { MATCH (setting)-[:OF]->(:Agent) }
MATCH (agent:Agent {id: setting.id})
CREATE (setting)-[:OF]->(agent)
