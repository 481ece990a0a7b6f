// Who claims the given agents, under which key of its own.
// params: agent_ids list<string>
// returns: source string, rank integer, key string, agent_id string, hash string, since string, revision integer
UNWIND $agent_ids AS wanted
MATCH (agent:Agent {id: wanted})<-[claim:CLAIMS]-(source:Source)
RETURN source.id AS source, source.rank AS rank, claim.key AS key,
       agent.id AS agent_id, claim.hash AS hash, claim.since AS since, coalesce(claim.revision, 0) AS revision
ORDER BY source, agent_id
