// The vectors of capabilities, which can be searched for some owners alone; from Neo4j 2026.06.
// params: name string, options map
// returns: none
CYPHER 25
CREATE VECTOR INDEX $name IF NOT EXISTS FOR (node:Capability) ON node.embedding WITH [node.index_owner] OPTIONS $options
