// Links each change of a tool of these agents with the tool, where that is there.
// params: agent_ids list<string>
// returns: none
MATCH (change:Change) WHERE change.agent_id IN $agent_ids AND change.tool <> ''
  AND NOT EXISTS { MATCH (change)-[:OF]->(:Tool) }
MATCH (tool:Tool {id: change.agent_id + '/' + change.tool})
CREATE (change)-[:OF]->(tool)
