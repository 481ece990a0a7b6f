// What operators say of each toolset.
// params: none
// returns: name string, description string, tools list<string>, agents list<string>, tags list<string>, callers list<string>
MATCH (toolset:Toolset)
RETURN toolset.id AS name, toolset.description AS description, toolset.tools AS tools, toolset.agents AS agents,
       toolset.tags AS tags, toolset.callers AS callers
ORDER BY name
