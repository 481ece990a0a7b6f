// What the search index holds of agents. A row: id, props, capability (it has no tools), apart (hidden, waiting or pinned), unreachable.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (agent:Agent {id: row.id})
SET agent += row.props
FOREACH (_ IN CASE WHEN row.capability THEN [1] ELSE [] END | SET agent:Capability)
FOREACH (_ IN CASE WHEN row.capability THEN [] ELSE [1] END | REMOVE agent:Capability)
FOREACH (_ IN CASE WHEN row.apart THEN [1] ELSE [] END | SET agent:Apart)
FOREACH (_ IN CASE WHEN row.apart THEN [] ELSE [1] END | REMOVE agent:Apart)
FOREACH (_ IN CASE WHEN row.unreachable THEN [1] ELSE [] END | SET agent:Unreachable)
FOREACH (_ IN CASE WHEN row.unreachable THEN [] ELSE [1] END | REMOVE agent:Unreachable)
