// Takes tools out of toolsets. A row: toolset, tool.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (:Toolset {id: row.toolset})-[includes:INCLUDES]->(:Tool {id: row.tool})
DELETE includes
