// The ids of the oldest changes that tell of a first ingest, so many.
// params: rows integer
// returns: id string
MATCH (change:Change) WHERE change.what = 'added' AND change.tool = ''
RETURN change.id AS id ORDER BY id LIMIT $rows
