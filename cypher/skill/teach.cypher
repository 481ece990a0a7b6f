// Links skills with tools that they teach. A row: skill, other (the tool).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (skill:Agent {id: row.skill})
MATCH (tool:Tool {id: row.other})
MERGE (skill)-[:TEACHES]->(tool)
