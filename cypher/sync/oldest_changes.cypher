// The ids of the oldest changes of given agents or of all, so many.
// params: all boolean, agent_ids list<string>, rows integer
// returns: id string
MATCH (change:Change) WHERE $all OR change.agent_id IN $agent_ids
RETURN change.id AS id ORDER BY id LIMIT $rows
