// All nodes of the label, with their properties.
// params: none
// returns: name string, props map
MATCH (node:Node) RETURN node.id AS name, properties(node) AS props ORDER BY name
