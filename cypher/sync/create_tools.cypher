// New tools under their agents, which exist. A row: agent_id, props (with id).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (agent:Agent {id: row.agent_id})
CREATE (agent)-[:OWNS]->(tool:Tool)
SET tool += row.props
