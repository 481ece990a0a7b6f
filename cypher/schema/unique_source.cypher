// One Source an id.
// params: none
// returns: none
CREATE CONSTRAINT source_id IF NOT EXISTS FOR (node:Source) REQUIRE node.id IS UNIQUE
