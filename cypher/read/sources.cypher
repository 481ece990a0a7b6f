// Every source, also those that claim nothing now.
// params: none
// returns: name string, namespace string, rank integer, policy string, owner string, seen_at string, pause_s integer, failures string
MATCH (source:Source)
RETURN source.id AS name, source.namespace AS namespace, source.rank AS rank,
       coalesce(source.policy, 'accept') AS policy, coalesce(source.owner, '') AS owner,
       source.seen_at AS seen_at, coalesce(source.pause_s, 0) AS pause_s,
       coalesce(source.failures, '[]') AS failures
ORDER BY name
