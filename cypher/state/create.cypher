// The one Registry node, with which a graph becomes a registry; one that is there stays as it is.
// params: props map
// returns: revision integer, embedder string, embedder_spec string, texts string, schema_version integer, commit string
MERGE (registry:Registry {id: 'registry'}) ON CREATE SET registry += $props
RETURN registry.revision AS revision, registry.embedder AS embedder, registry.embedder_spec AS embedder_spec,
       registry.texts AS texts, registry.schema_version AS schema_version,
       coalesce(registry.commit, '') AS commit
