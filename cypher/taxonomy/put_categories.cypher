// Sets properties of categories; makes the nodes that are not there. A row: id, props.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MERGE (category:Category {id: row.id}) SET category += row.props
