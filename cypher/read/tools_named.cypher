// The tools of these names, whoever owns them, without their vectors.
// params: names list<string>
// returns: id string, agent_id string, name string, call_name string, description string, input_schema string, output_schema string, annotations string, tags list<string>, questions list<string>, status string, pending boolean, flags list<string>, content_hash string, approved_hash string, vector_key string
MATCH (tool:Tool) WHERE tool.name IN $names
MATCH (tool)<-[:OWNS]-(agent:Agent)
RETURN tool.id AS id, agent.id AS agent_id, tool.name AS name, tool.call_name AS call_name,
       tool.description AS description, tool.input_schema AS input_schema,
       tool.output_schema AS output_schema, tool.annotations AS annotations, tool.tags AS tags,
       coalesce(tool.questions, []) AS questions, tool.status AS status,
       coalesce(tool.pending, false) AS pending, coalesce(tool.flags, []) AS flags,
       tool.content_hash AS content_hash, coalesce(tool.approved_hash, '') AS approved_hash, tool.vector_key AS vector_key
ORDER BY id
