// Who claims the agents of these ids, under which key of its own.
// params: ids list<string>
// returns: source string, key string, agent_id string
UNWIND $ids AS wanted
MATCH (source:Source)-[claim:CLAIMS]->(agent:Agent {id: wanted})
RETURN source.id AS source, claim.key AS key, agent.id AS agent_id
ORDER BY source, agent_id
