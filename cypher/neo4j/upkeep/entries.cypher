// What the search index holds of agents and their tools, before they change.
// params: agent_ids list<string>
// returns: id string, capability boolean, props map
UNWIND $agent_ids AS wanted
MATCH (agent:Agent {id: wanted})
RETURN agent.id AS id, agent:Capability AS capability,
       agent {.index_terms, .index_names, .index_record} AS props
UNION ALL
UNWIND $agent_ids AS wanted
MATCH (:Agent {id: wanted})-[:OWNS]->(tool:Tool)
RETURN tool.id AS id, true AS capability,
       tool {.index_terms, .index_names, .index_record} AS props
