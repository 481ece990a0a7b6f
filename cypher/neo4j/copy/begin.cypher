// Marks the graph as a copy that is not whole yet, or takes such a copy over; no row if it holds a registry.
// params: props map
// returns: token string
OPTIONAL MATCH (lock:Migration {id: '1'})
SET lock.name = lock.name
WITH lock WHERE NOT EXISTS { MATCH (:Registry {id: 'registry'}) }
MERGE (copy:Copy {id: 'copy'}) SET copy += $props
RETURN copy.token AS token
