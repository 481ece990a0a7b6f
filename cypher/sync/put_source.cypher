// Creates or confirms a source.
// params: name string, namespace string, rank integer, seen_at string
// returns: none
MERGE (source:Source {id: $name})
SET source.namespace = $namespace, source.rank = $rank, source.seen_at = $seen_at
