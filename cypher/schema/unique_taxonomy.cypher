// One Taxonomy an id.
// params: none
// returns: none
CREATE CONSTRAINT taxonomy_id IF NOT EXISTS FOR (node:Taxonomy) REQUIRE node.id IS UNIQUE
