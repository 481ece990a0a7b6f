// Links each change of a toolset, as `toolset:NAME` among these, with the toolset, where that is there.
// params: agent_ids list<string>
// returns: none
MATCH (change:Change) WHERE change.agent_id IN $agent_ids AND change.agent_id STARTS WITH 'toolset:'
  AND NOT EXISTS { MATCH (change)-[:OF]->(:Toolset) }
MATCH (toolset:Toolset {id: substring(change.agent_id, 8)})
CREATE (change)-[:OF]->(toolset)
