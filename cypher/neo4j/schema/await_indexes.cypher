// Waits until every index answers.
// params: timeout_s integer
// returns: none
CALL db.awaitIndexes($timeout_s)
