// The labels whose ids the server keeps unique.
// params: none
// returns: label string
SHOW CONSTRAINTS YIELD type, labelsOrTypes, properties
WHERE type ENDS WITH 'UNIQUENESS' AND properties = ['id']
RETURN labelsOrTypes[0] AS label ORDER BY label
