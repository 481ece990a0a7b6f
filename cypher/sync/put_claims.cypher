// Creates or renews claims of a source. A row: agent_id, key, hash, since, seen_at.
// params: source string, rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (source:Source {id: $source})
MATCH (agent:Agent {id: row.agent_id})
MERGE (agent)<-[claim:CLAIMS]-(source)
SET claim.key = row.key, claim.hash = row.hash, claim.seen_at = row.seen_at,
    claim.since = coalesce(claim.since, row.since)
