// One node of the label an id.
// params: none
// returns: none
CREATE CONSTRAINT node_id IF NOT EXISTS FOR (node:Node) REQUIRE node.id IS UNIQUE
