// Sets how often conversations began with tools: edges of the Registry node. A row: next, before, count, last_at.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (registry:Registry {id: 'registry'})
MATCH (next:Tool {id: row.next})
MERGE (registry)-[followed:FOLLOWED_BY {before: row.before}]->(next)
SET followed.count = row.count, followed.last_at = row.last_at
