// The vectors of the given tools.
// params: ids list<string>
// returns: id string, embedding list<float>
UNWIND $ids AS wanted
MATCH (tool:Tool {id: wanted})
RETURN tool.id AS id, tool.embedding AS embedding ORDER BY id
