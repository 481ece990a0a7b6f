// Links each change of a source, as `source:NAME` among these, with the source, where that was read.
// params: agent_ids list<string>
// returns: none
MATCH (change:Change) WHERE change.agent_id IN $agent_ids AND change.agent_id STARTS WITH 'source:'
  AND NOT EXISTS { MATCH (change)-[:OF]->(:Source) }
MATCH (source:Source {id: substring(change.agent_id, 7)}) WHERE source.seen_at <> ''
CREATE (change)-[:OF]->(source)
