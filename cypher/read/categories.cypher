// Every category of every taxonomy, without its vector.
// params: none
// returns: id string, name string, description string, boundary string, axis string, depth integer, examples list<string>
MATCH (category:Category)
RETURN category.id AS id, category.name AS name, category.description AS description, category.boundary AS boundary,
       category.axis AS axis, category.depth AS depth, category.examples AS examples
ORDER BY id
