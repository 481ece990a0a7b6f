// Links each change that a source made with the source, where that was read.
// params: source string
// returns: none
MATCH (change:Change) WHERE change.source = $source AND NOT EXISTS { MATCH (change)-[:FROM]->(:Source) }
MATCH (source:Source {id: $source}) WHERE source.seen_at <> ''
CREATE (change)-[:FROM]->(source)
