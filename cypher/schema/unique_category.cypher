// One Category an id.
// params: none
// returns: none
CREATE CONSTRAINT category_id IF NOT EXISTS FOR (node:Category) REQUIRE node.id IS UNIQUE
