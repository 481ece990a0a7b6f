// Removes the node of a taxonomy; its categories are removed before.
// params: id string
// returns: none
MATCH (taxonomy:Taxonomy {id: $id}) DETACH DELETE taxonomy
