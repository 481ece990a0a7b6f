// Removes agents and their edges; their tools are removed before.
// params: ids list<string>
// returns: none
UNWIND $ids AS gone MATCH (agent:Agent {id: gone}) DETACH DELETE agent
