// The tools whose input schemas hold one of these names, which are lower case, without dashes and underscores.
// params: names list<string>
// returns: id string, input_schema string
MATCH (tool:Tool)
WITH tool, replace(replace(toLower(tool.input_schema), '_', ''), '-', '') AS schema
WHERE any(name IN $names WHERE schema CONTAINS name)
RETURN tool.id AS id, tool.input_schema AS input_schema ORDER BY id
