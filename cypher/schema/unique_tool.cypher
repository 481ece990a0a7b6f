// One Tool an id.
// params: none
// returns: none
CREATE CONSTRAINT tool_id IF NOT EXISTS FOR (node:Tool) REQUIRE node.id IS UNIQUE
