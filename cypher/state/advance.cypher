// Compare-and-set of the revision: no row if another writer was first.
// params: expected integer, commit string
// returns: revision integer
MATCH (registry:Registry {id: 'registry'}) WHERE registry.revision = $expected
SET registry.revision = registry.revision + 1, registry.commit = $commit
RETURN registry.revision AS revision
