// The one Registry node, as elsewhere; none where a copy is not whole yet. Takes the lock that its begin takes.
// params: props map
// returns: revision integer, embedder string, embedder_spec string, texts string, schema_version integer, commit string
OPTIONAL MATCH (lock:Migration {id: '1'})
SET lock.name = lock.name
WITH lock WHERE NOT EXISTS { MATCH (:Copy {id: 'copy'}) }
MERGE (registry:Registry {id: 'registry'}) ON CREATE SET registry += $props
RETURN registry.revision AS revision, registry.embedder AS embedder, registry.embedder_spec AS embedder_spec,
       registry.texts AS texts, registry.schema_version AS schema_version,
       coalesce(registry.commit, '') AS commit
