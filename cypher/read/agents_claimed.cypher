// The ids of the agents that a source claims.
// params: source string
// returns: id string
MATCH (source:Source {id: $source})-[:CLAIMS]->(agent:Agent)
RETURN agent.id AS id ORDER BY id
