// Says that it still goes on.
// params: token string
// returns: none
MATCH (mark:Commit {id: 'commit'}) WHERE mark.token = $token SET mark.since = timestamp()
