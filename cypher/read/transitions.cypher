// What was called after what: tools, and agents. `first` empty: before all others; `before` empty: after whatever it was.
// params: none
// returns: first string, next string, before string, count float, last_at string
MATCH (first:Tool)-[followed:FOLLOWED_BY]->(next:Tool)
RETURN first.id AS first, next.id AS next, followed.before AS before, followed.count AS count,
       followed.last_at AS last_at
UNION ALL
MATCH (first:Agent)-[followed:FOLLOWED_BY]->(next:Agent)
RETURN first.id AS first, next.id AS next, followed.before AS before, followed.count AS count,
       followed.last_at AS last_at
UNION ALL
MATCH (:Registry)-[followed:FOLLOWED_BY]->(next)
RETURN '' AS first, next.id AS next, followed.before AS before, followed.count AS count,
       followed.last_at AS last_at
