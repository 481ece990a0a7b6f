// Stores what an operator says of an agent id, apart from the agent.
// params: id string, props map
// returns: none
MERGE (setting:Setting {id: $id}) SET setting += $props
