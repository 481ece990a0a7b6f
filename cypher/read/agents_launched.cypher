// The ids of the agents of these transports.
// params: transports list<string>
// returns: id string
MATCH (agent:Agent) WHERE agent.transport IN $transports
RETURN agent.id AS id ORDER BY id
