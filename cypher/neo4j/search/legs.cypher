// All legs of a search with their owners and records, in one answer; see waygraph.registry.index.neo4j.neo4j_index.
// params: ask map
// returns: state list, agents list, tools list, pinned list, apart integer, frequencies list, legs list, after list
MATCH (registry:Registry {id: 'registry'})
OPTIONAL MATCH (mark:Commit {id: 'commit'})
WITH [registry.revision, registry.commit, registry.embedder, registry.texts,
      coalesce(timestamp() - mark.since, -1)] AS state
CALL () {
  CALL () {
    WITH 'agent_vector' AS leg WHERE leg IN $ask.legs
    CALL db.index.vector.queryNodes($ask.agent_index, $ask.reach, $ask.vector) YIELD node, score
    RETURN leg, node, score
    UNION ALL
    WITH 'capability_vector' AS leg WHERE leg IN $ask.legs
    CALL db.index.vector.queryNodes($ask.capability_index, $ask.reach, $ask.vector) YIELD node, score
    RETURN leg, node, score
    UNION ALL
    WITH 'tool_vector' AS leg WHERE leg IN $ask.legs
    CALL db.index.vector.queryNodes($ask.capability_index, $ask.reach, $ask.vector) YIELD node, score
    RETURN leg, node, score
    UNION ALL
    WITH 'agent_text' AS leg WHERE leg IN $ask.legs
    CALL db.index.fulltext.queryNodes('agent_text', $ask.agent_words, {limit: $ask.reach}) YIELD node, score
    RETURN leg, node, score
    UNION ALL
    WITH 'capability_text' AS leg WHERE leg IN $ask.legs
    CALL db.index.fulltext.queryNodes('capability_text', $ask.capability_words, {limit: $ask.reach}) YIELD node, score
    RETURN leg, node, score
    UNION ALL
    WITH 'name' AS leg WHERE leg IN $ask.legs
    CALL db.index.fulltext.queryNodes('name', $ask.names) YIELD node, score
    RETURN leg, node, score
  }
  OPTIONAL MATCH (parent:Agent)-[:OWNS]->(node)
  WITH leg, node, score, coalesce(parent, node) AS owner,
       CASE WHEN node:Tool THEN '2' WHEN node:Capability THEN '1' ELSE '0' END + node.id AS place
  ORDER BY score DESC, place
  WITH leg, count(*) AS seen, collect(CASE
    WHEN (NOT owner:Apart OR NOT owner.index_hidden)
      AND ($ask.everyone OR owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
      AND ($ask.tags = [] OR any(tag IN owner.index_tags WHERE tag IN $ask.tags))
      AND ($ask.kinds = [] OR owner.kind IN $ask.kinds)
      AND ($ask.agent_ids = [] OR owner.id IN $ask.agent_ids)
      AND NOT any(tag IN owner.index_tags WHERE tag IN $ask.without_tags)
      AND NOT owner.kind IN $ask.without_kinds AND NOT owner.id IN $ask.without_agent_ids
      AND NOT node:Pending
      AND (NOT $ask.reachable OR NOT owner:Unreachable)
      AND (leg <> 'tool_vector' OR node:Tool)
    THEN [node, owner, score, place] END) AS kept
  WITH leg, seen, CASE WHEN leg = 'name' THEN kept ELSE kept[..$ask.depth] END AS kept
  RETURN collect([leg, seen, kept]) AS found
}
CALL (found) {
  UNWIND found AS leg
  UNWIND leg[2] AS hit
  WITH collect(DISTINCT hit[0]) AS nodes, collect(DISTINCT hit[1]) AS owners
  RETURN [node IN nodes WHERE node:Tool | [node.id, node.index_record]] AS tools,
         [owner IN owners | [owner.id, owner.index_record]] AS agents
}
CALL () {
  MATCH (agent:Apart)
  RETURN collect(CASE WHEN agent.index_pinned THEN [agent.id, agent.index_record] END) AS pinned,
         sum(1 + COUNT { (agent)-[:OWNS]->(:Tool) }) + COUNT { MATCH (:Pending) } AS apart
}
CALL () {
  UNWIND $ask.terms AS word
  OPTIONAL MATCH (term:Term {id: word})
  RETURN collect([coalesce(term.agents, 0), coalesce(term.capabilities, 0)]) AS frequencies
}
MATCH (registry:Registry {id: 'registry'})
OPTIONAL MATCH (mark:Commit {id: 'commit'})
RETURN state, agents, tools, pinned, apart, frequencies,
  [leg IN found | [leg[0], leg[1],
    [hit IN leg[2] | hit[3]],
    [hit IN leg[2] | hit[2]],
    CASE WHEN leg[0] = 'name' THEN [hit IN leg[2] | hit[0].index_names] ELSE [] END]] AS legs,
  [registry.revision, registry.commit, coalesce(timestamp() - mark.since, -1)] AS after
