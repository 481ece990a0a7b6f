// Creates or confirms a source.
// params: name string, namespace string, rank integer, policy string, owner string, seen_at string, pause_s integer, failures string
// returns: none
MERGE (source:Source {id: $name})
SET source.namespace = $namespace, source.rank = $rank, source.policy = $policy, source.owner = $owner,
    source.seen_at = $seen_at, source.pause_s = $pause_s, source.failures = $failures
