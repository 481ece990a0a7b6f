// Compare-and-set of the revision: no row if another writer was first. Holds the node before it compares.
// params: expected integer, commit string
// returns: revision integer
MATCH (registry:Registry {id: 'registry'})
SET registry.commit = $commit
WITH registry WHERE registry.revision = $expected
SET registry.revision = registry.revision + 1
RETURN registry.revision AS revision
