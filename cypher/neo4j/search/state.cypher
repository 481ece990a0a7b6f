// What the registry says of itself, and how much it holds.
// params: none
// returns: revision integer, embedder string, embedder_spec string, texts string, schema_version integer, commit string, agents integer, tools integer, dimension integer, apart integer
MATCH (registry:Registry {id: 'registry'})
RETURN registry.revision AS revision, registry.embedder AS embedder, registry.embedder_spec AS embedder_spec,
       registry.texts AS texts, registry.schema_version AS schema_version,
       coalesce(registry.commit, '') AS commit, COUNT { MATCH (:Agent) } AS agents,
       COUNT { MATCH (:Tool) } AS tools,
       coalesce(head(COLLECT {
         MATCH (agent:Agent) WHERE agent.embedding IS NOT NULL RETURN size(agent.embedding) LIMIT 1
       }), 0) AS dimension,
       COUNT { MATCH (:Apart) } + COUNT { MATCH (:Apart)-[:OWNS]->(:Tool) }
         + COUNT { MATCH (:Pending) } AS apart
