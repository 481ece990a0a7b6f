// The vector of the first agent that has one: all vectors of a registry are of its length.
// params: none
// returns: embedding list<float>
MATCH (agent:Agent) WHERE agent.embedding IS NOT NULL
WITH min(agent.id) AS first
MATCH (agent:Agent {id: first})
RETURN agent.embedding AS embedding
