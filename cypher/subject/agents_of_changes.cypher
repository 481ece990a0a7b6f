// Links each change of these agents with the agent, where that is there.
// params: agent_ids list<string>
// returns: none
MATCH (change:Change) WHERE change.agent_id IN $agent_ids
  AND NOT EXISTS { MATCH (change)-[:OF]->(:Agent) }
MATCH (agent:Agent {id: change.agent_id})
CREATE (change)-[:OF]->(agent)
