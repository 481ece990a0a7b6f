// Creates or overwrites agents. A row: id, props.
// params: rows list<map>
// returns: none
UNWIND $rows AS row MERGE (agent:Agent {id: row.id}) SET agent += row.props
