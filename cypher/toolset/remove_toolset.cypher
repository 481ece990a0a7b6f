// Removes a toolset; its tools stay.
// params: id string
// returns: none
MATCH (toolset:Toolset {id: $id}) DETACH DELETE toolset
