// Holds the Registry node till the end of the transaction: no row if another writer was first.
// params: expected integer
// returns: revision integer
MATCH (registry:Registry {id: 'registry'})
SET registry.revision = registry.revision
WITH registry WHERE registry.revision = $expected
RETURN registry.revision AS revision
