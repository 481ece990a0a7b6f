// The ids of the agents whose ids are these but for case, dots, blanks, hyphens and underscores.
// params: ids list<string>
// returns: id string
MATCH (agent:Agent)
WITH agent, toLower(replace(replace(replace(replace(agent.id, '.', ''), ' ', ''), '-', ''), '_', '')) AS plain
WHERE plain IN $ids
RETURN agent.id AS id ORDER BY id
