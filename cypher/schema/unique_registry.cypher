// One Registry an id.
// params: none
// returns: none
CREATE CONSTRAINT registry_id IF NOT EXISTS FOR (node:Registry) REQUIRE node.id IS UNIQUE
