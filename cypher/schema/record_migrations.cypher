// Records schema migrations; running it again changes nothing. A row: id, name, applied_at.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MERGE (migration:Migration {id: row.id})
SET migration.name = row.name, migration.applied_at = coalesce(migration.applied_at, row.applied_at)
