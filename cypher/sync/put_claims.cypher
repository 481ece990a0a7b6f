// Creates or renews claims of a source. A row: agent_id, key, hash, since.
// params: source string, rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (source:Source {id: $source})
MATCH (agent:Agent {id: row.agent_id})
MERGE (agent)<-[claim:CLAIMS]-(source)
SET claim.key = row.key, claim.hash = row.hash, claim.since = coalesce(claim.since, row.since)
