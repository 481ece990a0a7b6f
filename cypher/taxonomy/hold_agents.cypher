// Puts agents into categories, and says what put them there. A row: category, entity, by.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (category:Category {id: row.category})
MATCH (entity:Agent {id: row.entity})
MERGE (category)-[holds:HOLDS]->(entity)
SET holds.by = row.by
