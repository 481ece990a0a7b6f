// Takes agents or tools out of categories. A row: category, entity.
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MATCH (:Category {id: row.category})-[holds:HOLDS]->(entity) WHERE entity.id = row.entity
DELETE holds
