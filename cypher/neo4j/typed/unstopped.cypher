// How many statements with this mark were ended and still run: nothing stops Neo4j in the middle of an expression.
// params: mark string
// returns: statements integer
SHOW TRANSACTIONS YIELD metaData, status
WHERE metaData.waygraph = $mark AND status STARTS WITH 'Terminated'
RETURN count(*) AS statements
