// Exact vector legs over the allowed entities alone, for a scope that leaves too few in the index's own answer.
// params: ask map
// returns: state list, agents list, tools list, legs list, after list
MATCH (registry:Registry {id: 'registry'})
OPTIONAL MATCH (mark:Commit {id: 'commit'})
WITH [registry.revision, registry.commit, registry.embedder, registry.texts,
      coalesce(timestamp() - mark.since, -1)] AS state
CALL () {
  MATCH (owner:Agent)
  WHERE (NOT owner:Apart OR NOT owner.index_hidden)
    AND ($ask.everyone OR owner.index_groups = [] OR any(name IN owner.index_groups WHERE name IN $ask.groups))
    AND ($ask.tags = [] OR any(tag IN owner.index_tags WHERE tag IN $ask.tags))
    AND ($ask.kinds = [] OR owner.kind IN $ask.kinds)
    AND ($ask.agent_ids = [] OR owner.id IN $ask.agent_ids)
    AND NOT any(tag IN owner.index_tags WHERE tag IN $ask.without_tags)
    AND NOT owner.kind IN $ask.without_kinds AND NOT owner.id IN $ask.without_agent_ids
    AND (NOT $ask.reachable OR NOT owner:Unreachable)
  WITH collect(owner) AS owners
  CALL (owners) {
    WITH owners, 'agent_vector' AS leg WHERE leg IN $ask.legs
    UNWIND owners AS owner
    RETURN leg, owner, owner AS node
    UNION ALL
    WITH owners, 'capability_vector' AS leg WHERE leg IN $ask.legs
    UNWIND owners AS owner
    WITH leg, owner WHERE owner:Capability
    RETURN leg, owner, owner AS node
    UNION ALL
    WITH owners WHERE any(leg IN $ask.legs WHERE leg IN ['capability_vector', 'tool_vector'])
    UNWIND owners AS owner
    MATCH (owner)-[:OWNS]->(node:Tool) WHERE NOT node:Pending
    UNWIND [leg IN $ask.legs WHERE leg IN ['capability_vector', 'tool_vector']] AS leg
    RETURN leg, owner, node
  }
  // A vector of zeros is near to nothing; the function refuses it.
  WITH leg, owner, node, CASE WHEN any(x IN node.embedding WHERE x <> 0.0)
                              THEN vector.similarity.cosine(node.embedding, $ask.vector) END AS score
  WHERE score IS NOT NULL
  WITH leg, node, owner, score,
       CASE WHEN node:Tool THEN '2' WHEN node:Capability THEN '1' ELSE '0' END + node.id AS place
  ORDER BY score DESC, place
  WITH leg, collect([node, owner, score, place])[..$ask.depth] AS kept
  RETURN collect([leg, 0, kept]) AS found
}
CALL (found) {
  UNWIND found AS leg
  UNWIND leg[2] AS hit
  WITH collect(DISTINCT hit[0]) AS nodes, collect(DISTINCT hit[1]) AS owners
  RETURN [node IN nodes WHERE node:Tool | [node.id, node.index_record]] AS tools,
         [owner IN owners | [owner.id, owner.index_record]] AS agents
}
MATCH (registry:Registry {id: 'registry'})
OPTIONAL MATCH (mark:Commit {id: 'commit'})
RETURN state, agents, tools,
  [leg IN found | [leg[0], leg[1],
    [hit IN leg[2] | hit[3]],
    [hit IN leg[2] | hit[2]], []]] AS legs,
  [registry.revision, registry.commit, coalesce(timestamp() - mark.since, -1)] AS after
