// The records of tools.
// params: ids list<string>
// returns: id string, record string
UNWIND $ids AS wanted
MATCH (tool:Tool {id: wanted})
RETURN tool.id AS id, tool.index_record AS record
