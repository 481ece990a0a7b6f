// Creates or renews claims of a source. A row: agent_id, key, hash, since, revision. The first of each stays.
// params: source string, rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (source:Source {id: $source})
MATCH (agent:Agent {id: row.agent_id})
MERGE (agent)<-[claim:CLAIMS]-(source)
SET claim.revision = coalesce(claim.revision, CASE WHEN claim.since IS NULL THEN row.revision ELSE 0 END),
    claim.key = row.key, claim.hash = row.hash, claim.since = coalesce(claim.since, row.since)
