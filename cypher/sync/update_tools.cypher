// Overwrites properties of tools that exist. A row: id, props.
// params: rows list<map>
// returns: none
UNWIND $rows AS row MATCH (tool:Tool {id: row.id}) SET tool += row.props
