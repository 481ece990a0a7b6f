// One Change an id.
// params: none
// returns: none
CREATE CONSTRAINT change_id IF NOT EXISTS FOR (node:Change) REQUIRE node.id IS UNIQUE
