// Keeps others from taking the copy over till the end of the transaction: no row if one has.
// params: token string
// returns: token string
MATCH (copy:Copy {id: 'copy'})
SET copy.place = copy.place
WITH copy WHERE copy.token = $token
RETURN copy.token AS token
