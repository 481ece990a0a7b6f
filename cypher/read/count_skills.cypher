// How many skills there are.
// params: none
// returns: skills integer
MATCH (a:Agent {kind: 'skill'}) RETURN count(a) AS skills
