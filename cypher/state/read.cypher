// What the registry says of itself.
// params: none
// returns: revision integer, embedder string, embedder_spec string, texts string, schema_version integer, commit string
MATCH (registry:Registry {id: 'registry'})
RETURN registry.revision AS revision, registry.embedder AS embedder, registry.embedder_spec AS embedder_spec,
       registry.texts AS texts, registry.schema_version AS schema_version,
       coalesce(registry.commit, '') AS commit
