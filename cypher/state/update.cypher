// Sets properties of the Registry node.
// params: props map
// returns: none
MATCH (registry:Registry {id: 'registry'}) SET registry += $props
