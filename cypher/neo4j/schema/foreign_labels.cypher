// Which labels of ours are in use.
// params: labels list<string>
// returns: label string
CALL db.labels() YIELD label
WHERE label IN $labels
RETURN label ORDER BY label
