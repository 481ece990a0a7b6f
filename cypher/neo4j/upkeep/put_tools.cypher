// What the search index holds of tools. A row: id, props.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (tool:Tool {id: row.id})
SET tool:Capability, tool += row.props
