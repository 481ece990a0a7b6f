// The revision, and for how many milliseconds a commit has been going on (-1: none is).
// params: none
// returns: revision integer, commit string, committing_ms integer
MATCH (registry:Registry {id: 'registry'})
OPTIONAL MATCH (mark:Commit {id: 'commit'})
RETURN registry.revision AS revision, coalesce(registry.commit, '') AS commit,
       coalesce(timestamp() - mark.since, -1) AS committing_ms
