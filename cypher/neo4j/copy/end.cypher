// Takes the mark away: the copy is whole.
// params: token string
// returns: none
MATCH (copy:Copy {id: 'copy'}) WHERE copy.token = $token DELETE copy
