// One Migration an id.
// params: none
// returns: none
CREATE CONSTRAINT migration_id IF NOT EXISTS FOR (node:Migration) REQUIRE node.id IS UNIQUE
