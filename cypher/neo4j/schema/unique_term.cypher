// One Term a word.
// params: none
// returns: none
CREATE CONSTRAINT term_id IF NOT EXISTS FOR (node:Term) REQUIRE node.id IS UNIQUE
