// What was called after what, between tools and between agents. `before` empty: whatever was called before `first`.
// params: none
// returns: first string, next string, before string, count float, last_at string
MATCH (first:Tool)-[followed:FOLLOWED_BY]->(next:Tool)
RETURN first.id AS first, next.id AS next, followed.before AS before, followed.count AS count,
       followed.last_at AS last_at
UNION ALL
MATCH (first:Agent)-[followed:FOLLOWED_BY]->(next:Agent)
RETURN first.id AS first, next.id AS next, followed.before AS before, followed.count AS count,
       followed.last_at AS last_at
