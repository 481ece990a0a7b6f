// Takes an index away.
// params: name string
// returns: none
DROP INDEX $name IF EXISTS
