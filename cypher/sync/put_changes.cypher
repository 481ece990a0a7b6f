// Keeps what changed. A row: props (with id).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
CREATE (change:Change)
SET change += row.props
