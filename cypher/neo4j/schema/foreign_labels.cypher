// Which labels of ours nodes bear; a label that only an index or a constraint is on is not one of them.
// params: labels list<string>
// returns: label string
CALL db.labels() YIELD label
WHERE label IN $labels
CALL (label) { MATCH (node:$(label)) RETURN node LIMIT 1 }
RETURN label ORDER BY label
