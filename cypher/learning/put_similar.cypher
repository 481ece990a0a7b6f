// Edges between tools whose vectors are near, each pair once. A row: one and other, which are ids of tools; cosine.
// params: revision integer, rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (one:Tool {id: row.one})
MATCH (other:Tool {id: row.other})
CREATE (one)-[:SIMILAR {cosine: row.cosine, revision: $revision}]->(other)
