// The ids of the tools that have notices: flags that begin so.
// params: notice string
// returns: id string
MATCH (tool:Tool) WHERE any(flag IN tool.flags WHERE flag STARTS WITH $notice) RETURN tool.id AS id ORDER BY id
