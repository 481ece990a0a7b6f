// Takes away edges of skills. A row: skill, other (a tool or a server).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (:Agent {id: row.skill})-[link:TEACHES|NEEDS]->(other) WHERE other.id = row.other
DELETE link
