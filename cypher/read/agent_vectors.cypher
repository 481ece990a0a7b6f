// The vectors of the given agents.
// params: ids list<string>
// returns: id string, embedding list<float>
UNWIND $ids AS wanted
MATCH (agent:Agent {id: wanted})
RETURN agent.id AS id, agent.embedding AS embedding ORDER BY id
