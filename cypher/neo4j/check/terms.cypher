// In how many texts of agents and of capabilities each word is said to stand.
// params: none
// returns: id string, agents integer, capabilities integer
MATCH (term:Term)
RETURN term.id AS id, coalesce(term.agents, 0) AS agents, coalesce(term.capabilities, 0) AS capabilities ORDER BY id
