// The words of tools, and of agents without tools, as our own analyser made them; white space alone parts them.
// params: none
// returns: none
CREATE FULLTEXT INDEX capability_text IF NOT EXISTS FOR (node:Capability) ON EACH [node.index_terms]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}
