// The vector indexes of agents and capabilities that there are.
// params: none
// returns: name string
SHOW INDEXES YIELD name, type, labelsOrTypes
WHERE type = 'VECTOR' AND any(label IN labelsOrTypes WHERE label IN ['Agent', 'Capability'])
RETURN name ORDER BY name
