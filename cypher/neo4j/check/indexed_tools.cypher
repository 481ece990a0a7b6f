// What is indexed of every owned tool, in the form in which upkeep/put_tools takes it.
// params: none
// returns: id string, capability boolean, pending boolean, props map
MATCH (:Agent)-[:OWNS]->(tool:Tool)
RETURN tool.id AS id, tool:Capability AS capability, tool:Pending AS pending,
       tool {.index_owner, .index_record, .index_terms, .index_names} AS props
ORDER BY id
