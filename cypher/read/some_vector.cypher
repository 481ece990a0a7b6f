// The vector of any agent that has one: all vectors of a registry are of its length.
// params: none
// returns: embedding list<float>
MATCH (agent:Agent) WHERE agent.embedding IS NOT NULL
RETURN agent.embedding AS embedding LIMIT 1
