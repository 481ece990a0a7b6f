// One Agent an id.
// params: none
// returns: none
CREATE CONSTRAINT agent_id IF NOT EXISTS FOR (node:Agent) REQUIRE node.id IS UNIQUE
