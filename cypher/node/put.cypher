// Sets properties of a node of the label; makes it where there is none.
// params: id string, props map
// returns: none
MERGE (node:Node {id: $id}) SET node += $props
