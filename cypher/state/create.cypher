// The one Registry node, with which a graph becomes a registry; one that is there stays as it is.
// params: props map
// returns: none
MERGE (registry:Registry {id: 'registry'}) ON CREATE SET registry += $props
