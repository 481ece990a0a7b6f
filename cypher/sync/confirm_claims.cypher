// Marks every claim of a source as seen now.
// params: source string, seen_at string
// returns: none
MATCH (source:Source {id: $source})-[claim:CLAIMS]->(:Agent) SET claim.seen_at = $seen_at
