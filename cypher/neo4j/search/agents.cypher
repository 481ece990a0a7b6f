// The records of all agents.
// params: none
// returns: record string
MATCH (agent:Agent) RETURN agent.index_record AS record ORDER BY agent.id
