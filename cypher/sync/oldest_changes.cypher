// The ids of the oldest changes, so many.
// params: rows integer
// returns: id string
MATCH (change:Change) RETURN change.id AS id ORDER BY id LIMIT $rows
