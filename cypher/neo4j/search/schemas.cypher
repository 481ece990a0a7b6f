// The schemas of all tools, if one of them says what it gives.
// params: none
// returns: id string, input_schema string, output_schema string
MATCH (giving:Tool) WHERE giving.output_schema <> ''
WITH count(giving) AS giving WHERE giving > 0
MATCH (tool:Tool)
RETURN tool.id AS id, tool.input_schema AS input_schema, tool.output_schema AS output_schema ORDER BY id
