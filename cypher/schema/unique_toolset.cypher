// One Toolset an id.
// params: none
// returns: none
CREATE CONSTRAINT toolset_id IF NOT EXISTS FOR (node:Toolset) REQUIRE node.id IS UNIQUE
