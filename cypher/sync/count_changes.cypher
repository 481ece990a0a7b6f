// How many changes are kept of each agent.
// params: none
// returns: agent_id string, changes integer
MATCH (change:Change) RETURN change.agent_id AS agent_id, count(change) AS changes
