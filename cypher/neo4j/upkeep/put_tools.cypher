// What the search index holds of tools. A row: id, props, pending (waits for approval).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (tool:Tool {id: row.id})
SET tool:Capability, tool += row.props
FOREACH (_ IN CASE WHEN row.pending THEN [1] ELSE [] END | SET tool:Pending)
FOREACH (_ IN CASE WHEN row.pending THEN [] ELSE [1] END | REMOVE tool:Pending)
