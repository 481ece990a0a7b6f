// Links skills with servers that they need. A row: skill, other (the server).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (skill:Agent {id: row.skill})
MATCH (server:Agent {id: row.other})
MERGE (skill)-[:NEEDS]->(server)
