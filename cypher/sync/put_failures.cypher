// What of a source does not work. One that is gone stays so.
// params: name string, pause_s integer, failures string
// returns: none
MATCH (source:Source {id: $name})
SET source.pause_s = $pause_s, source.failures = $failures
