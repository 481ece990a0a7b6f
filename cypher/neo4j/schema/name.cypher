// The folded names of agents and tools; white space alone parts them.
// params: none
// returns: none
CREATE FULLTEXT INDEX name IF NOT EXISTS FOR (node:Agent|Tool) ON EACH [node.index_names]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}
