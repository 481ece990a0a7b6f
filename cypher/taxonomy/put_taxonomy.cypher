// Sets what is said of a taxonomy as a whole; makes its node where there is none.
// params: id string, props map
// returns: none
MERGE (taxonomy:Taxonomy {id: $id}) SET taxonomy += $props
