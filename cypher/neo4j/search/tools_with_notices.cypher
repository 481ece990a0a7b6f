// The ids of the tools whose texts were marked when they were examined.
// params: none
// returns: id string
MATCH (tool:Tool) WHERE size(tool.flags) > 0 RETURN tool.id AS id ORDER BY id
