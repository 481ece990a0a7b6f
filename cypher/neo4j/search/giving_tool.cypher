// A tool that says what it gives, if there is one.
// params: none
// returns: id string
MATCH (tool:Tool) WHERE tool.output_schema <> ''
RETURN tool.id AS id LIMIT 1
