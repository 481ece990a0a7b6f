// The agents of these ids as their sources state them, without their vectors.
// params: agent_ids list<string>
// returns: id string, name string, description string, kind string, version string, transport string, tags list<string>, visible_to list<string>, status string, pending boolean, flags list<string>, content_hash string, approved_hash string, bundle_hash string, vector_key string
UNWIND $agent_ids AS wanted
MATCH (agent:Agent {id: wanted})
RETURN agent.id AS id, agent.name AS name, agent.description AS description, agent.kind AS kind,
       agent.version AS version, agent.transport AS transport, agent.tags AS tags,
       agent.visible_to AS visible_to, agent.status AS status,
       coalesce(agent.pending, false) AS pending, coalesce(agent.flags, []) AS flags,
       agent.content_hash AS content_hash, coalesce(agent.approved_hash, '') AS approved_hash,
       agent.bundle_hash AS bundle_hash, agent.vector_key AS vector_key
ORDER BY id
