// Puts tools that are there into toolsets. A row: toolset, tool.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (toolset:Toolset {id: row.toolset})
MATCH (tool:Tool {id: row.tool})
MERGE (toolset)-[:INCLUDES]->(tool)
