// The words of agents, as our own analyser made them; white space alone parts them.
// params: none
// returns: none
CREATE FULLTEXT INDEX agent_text IF NOT EXISTS FOR (node:Agent) ON EACH [node.index_terms]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}
