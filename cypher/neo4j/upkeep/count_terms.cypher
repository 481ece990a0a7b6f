// In how many texts a word stands. A row: id (the word; *: any text), agents, capabilities (what to add).
// params: rows list<map>
// returns: none
UNWIND $rows AS row
MERGE (term:Term {id: row.id})
SET term.agents = coalesce(term.agents, 0) + row.agents,
    term.capabilities = coalesce(term.capabilities, 0) + row.capabilities
WITH term WHERE term.agents = 0 AND term.capabilities = 0
DELETE term
