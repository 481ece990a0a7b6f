// What of a source does not work. One that was never read is made; it is seen by nobody yet.
// params: name string, pause_s integer, failures string
// returns: none
MERGE (source:Source {id: $name})
SET source.namespace = coalesce(source.namespace, ''), source.rank = coalesce(source.rank, 0),
    source.policy = coalesce(source.policy, 'accept'), source.seen_at = coalesce(source.seen_at, ''),
    source.pause_s = $pause_s, source.failures = $failures
