// Who claims which agent, under which key of its own.
// params: none
// returns: source string, rank integer, key string, agent_id string, hash string, since string, revision integer
MATCH (source:Source)-[claim:CLAIMS]->(agent:Agent)
RETURN source.id AS source, source.rank AS rank, claim.key AS key,
       agent.id AS agent_id, claim.hash AS hash, claim.since AS since, coalesce(claim.revision, 0) AS revision
ORDER BY source, agent_id
