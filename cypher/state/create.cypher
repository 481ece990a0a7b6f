// The one Registry node, with which a graph becomes a registry.
// params: props map
// returns: none
MERGE (registry:Registry {id: 'registry'}) SET registry += $props
