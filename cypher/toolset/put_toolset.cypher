// Sets what operators say of a toolset; makes its node where there is none.
// params: id string, props map
// returns: none
MERGE (toolset:Toolset {id: $id}) SET toolset += $props
