// The vectors of agents, exact or not as the options say.
// params: name string, options map
// returns: none
CREATE VECTOR INDEX $name IF NOT EXISTS FOR (node:Agent) ON node.embedding OPTIONS $options
