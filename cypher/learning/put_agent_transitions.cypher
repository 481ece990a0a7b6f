// Sets how often agents were called after agents. A row: first, next, before, count, last_at.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (first:Agent {id: row.first})
MATCH (next:Agent {id: row.next})
MERGE (first)-[followed:FOLLOWED_BY {before: row.before}]->(next)
SET followed.count = row.count, followed.last_at = row.last_at
