// What the search index holds of agents and their tools, before they change.
// params: agent_ids list<string>
// returns: id string, capability boolean, agent boolean, terms string, names string, record string
UNWIND $agent_ids AS wanted
MATCH (agent:Agent {id: wanted})
RETURN agent.id AS id, agent:Capability AS capability, true AS agent,
       agent.index_terms AS terms, agent.index_names AS names, agent.index_record AS record
UNION ALL
UNWIND $agent_ids AS wanted
MATCH (:Agent {id: wanted})-[:OWNS]->(tool:Tool)
RETURN tool.id AS id, true AS capability, false AS agent,
       tool.index_terms AS terms, tool.index_names AS names, tool.index_record AS record
