// One mark of a commit that is going on.
// params: none
// returns: none
CREATE CONSTRAINT commit_id IF NOT EXISTS FOR (node:Commit) REQUIRE node.id IS UNIQUE
