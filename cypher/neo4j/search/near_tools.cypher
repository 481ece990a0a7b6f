// The tools whose vectors are nearest to those of the given tools, the nearest first.
// params: index string, ids list<string>, wanted integer
// returns: id string, near string, cosine float
UNWIND $ids AS id
MATCH (tool:Tool {id: id}) WHERE tool.embedding IS NOT NULL
CALL db.index.vector.queryNodes($index, $wanted, tool.embedding) YIELD node, score
WITH tool, node, score WHERE node:Tool AND node <> tool
RETURN tool.id AS id, node.id AS near, 2 * score - 1 AS cosine ORDER BY id, cosine DESC, near
