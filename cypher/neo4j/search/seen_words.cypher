// In how many texts each word stands, of all and of those that a principal may find; the first of both are totals.
// params: ask map
// returns: commit string, frequencies list, seen list
MATCH (registry:Registry {id: 'registry'})
CALL () {
  UNWIND $ask.terms AS word
  OPTIONAL MATCH (term:Term {id: word})
  RETURN collect([coalesce(term.agents, 0), coalesce(term.capabilities, 0)]) AS frequencies
}
CALL () {
  MATCH (owner:Agent)
  WHERE (NOT owner:Apart OR NOT owner.index_hidden)
    AND (owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
  RETURN count(owner) AS agents
}
CALL () {
  MATCH (node:Capability)
  OPTIONAL MATCH (parent:Agent)-[:OWNS]->(node)
  WITH node, coalesce(parent, node) AS owner
  WHERE (NOT owner:Apart OR NOT owner.index_hidden)
    AND (owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
    AND NOT node:Pending
  RETURN count(node) AS capabilities
}
CALL () {
  UNWIND $ask.queries AS query
  CALL (query) {
    CALL db.index.fulltext.queryNodes('agent_text', query) YIELD node AS owner
    WHERE (NOT owner:Apart OR NOT owner.index_hidden)
      AND (owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
    RETURN count(owner) AS of_agents
  }
  CALL (query) {
    CALL db.index.fulltext.queryNodes('capability_text', query) YIELD node
    OPTIONAL MATCH (parent:Agent)-[:OWNS]->(node)
    WITH node, coalesce(parent, node) AS owner
    WHERE (NOT owner:Apart OR NOT owner.index_hidden)
      AND (owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
      AND NOT node:Pending
    RETURN count(node) AS of_capabilities
  }
  RETURN collect([of_agents, of_capabilities]) AS of_words
}
RETURN registry.commit AS commit, frequencies, [[agents, capabilities]] + of_words AS seen
