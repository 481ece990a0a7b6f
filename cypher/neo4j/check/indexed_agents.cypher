// What is indexed of every agent, in the form in which upkeep/put_agents takes it.
// params: none
// returns: id string, capability boolean, apart boolean, unreachable boolean, props map
MATCH (agent:Agent)
RETURN agent.id AS id, agent:Capability AS capability, agent:Apart AS apart,
       agent:Unreachable AS unreachable,
       agent {.index_owner, .index_record, .index_terms, .index_names, .index_tags, .index_groups, .index_hidden,
              .index_pinned} AS props
ORDER BY id
