// Records a schema migration; running it again changes nothing.
// params: id string, name string, applied_at string
// returns: none
MERGE (migration:Migration {id: $id})
SET migration.name = $name, migration.applied_at = coalesce(migration.applied_at, $applied_at)
