// Says that a commit is going on: what is read meanwhile may be of two revisions.
// params: token string
// returns: none
MERGE (mark:Commit {id: 'commit'}) SET mark.token = $token, mark.since = timestamp()
