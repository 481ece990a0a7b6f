// One Setting an id.
// params: none
// returns: none
CREATE CONSTRAINT setting_id IF NOT EXISTS FOR (node:Setting) REQUIRE node.id IS UNIQUE
