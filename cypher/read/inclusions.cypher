// Which tools each toolset includes.
// params: none
// returns: toolset string, tool string
MATCH (toolset:Toolset)-[:INCLUDES]->(tool:Tool)
RETURN toolset.id AS toolset, tool.id AS tool ORDER BY toolset, tool
