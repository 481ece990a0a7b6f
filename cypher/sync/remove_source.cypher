// Removes a source with what is left of its claims.
// params: source string
// returns: none
MATCH (source:Source {id: $source}) DETACH DELETE source
