// The migrations this graph has seen.
// params: none
// returns: id string, name string, applied_at string
MATCH (migration:Migration)
RETURN migration.id AS id, migration.name AS name, migration.applied_at AS applied_at ORDER BY id
