// The vector of each category that has one: the direction of those that it holds.
// params: none
// returns: id string, embedding list<float>
MATCH (category:Category) WHERE category.embedding IS NOT NULL
RETURN category.id AS id, category.embedding AS embedding ORDER BY id
