// The newest changes since a time (empty: ever), before the one of an id (empty: all), of given agents or of all.
// params: since string, before string, all boolean, agent_ids list<string>, limit integer
// returns: id string, at string, revision integer, source string, agent_id string, tool string, what string, fields list<string>, before_hash string, after_hash string, before string, after string, flags list<string>, covered list<string>
MATCH (change:Change)
WHERE change.at >= $since AND ($before = '' OR change.id < $before) AND ($all OR change.agent_id IN $agent_ids)
RETURN change.id AS id, change.at AS at, change.revision AS revision, change.source AS source,
       change.agent_id AS agent_id, change.tool AS tool, change.what AS what, change.fields AS fields,
       change.before_hash AS before_hash, change.after_hash AS after_hash, change.before AS before,
       change.after AS after, change.flags AS flags,
       coalesce(change.covered, []) AS covered
ORDER BY id DESC LIMIT $limit
