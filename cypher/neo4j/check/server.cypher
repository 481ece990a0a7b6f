// Which release and edition the server is.
// params: none
// returns: version string, edition string
CALL dbms.components() YIELD name, versions, edition
WHERE name = 'Neo4j Kernel'
RETURN versions[0] AS version, edition
