// Says that a commit has ended.
// params: token string
// returns: none
MATCH (mark:Commit {id: 'commit'}) WHERE mark.token = $token DELETE mark
