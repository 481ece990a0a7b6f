// The ids of the tools that wait for approval.
// params: none
// returns: id string
MATCH (tool:Pending) RETURN tool.id AS id ORDER BY id
