// Every change that is kept, the oldest first.
// params: none
// returns: id string, at string, revision integer, source string, agent_id string, tool string, what string, fields list<string>, before_hash string, after_hash string, before string, after string, flags list<string>, covered list<string>
MATCH (change:Change)
RETURN change.id AS id, change.at AS at, change.revision AS revision, change.source AS source,
       change.agent_id AS agent_id, change.tool AS tool, change.what AS what, change.fields AS fields,
       change.before_hash AS before_hash, change.after_hash AS after_hash, change.before AS before,
       change.after AS after, change.flags AS flags,
       coalesce(change.covered, []) AS covered
ORDER BY id
