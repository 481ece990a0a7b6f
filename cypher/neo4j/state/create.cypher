// The one Registry node, as elsewhere; none where a copy is not whole yet. Takes the lock that its begin takes.
// params: props map
// returns: none
OPTIONAL MATCH (lock:Migration {id: '1'})
SET lock.name = lock.name
WITH lock WHERE NOT EXISTS { MATCH (:Copy {id: 'copy'}) }
MERGE (registry:Registry {id: 'registry'}) ON CREATE SET registry += $props
