// Which agents or tools each category holds, and what put them there.
// params: none
// returns: category string, entity string, by string
MATCH (category:Category)-[holds:HOLDS]->(entity)
RETURN category.id AS category, entity.id AS entity, holds.by AS by ORDER BY category, entity
