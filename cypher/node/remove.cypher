// Removes a node of the label with all its edges.
// params: id string
// returns: none
MATCH (node:Node {id: $id}) DETACH DELETE node
