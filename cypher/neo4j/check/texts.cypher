// How many texts each full-text index holds, and how many there are.
// params: none
// returns: name string, held integer, wanted integer
CALL () {
  CALL db.index.fulltext.queryNodes('agent_text', '*:*') YIELD node
  RETURN 'agent_text' AS name, count(node) AS held, COUNT { MATCH (:Agent) } AS wanted
  UNION ALL
  CALL db.index.fulltext.queryNodes('capability_text', '*:*') YIELD node
  RETURN 'capability_text' AS name, count(node) AS held, COUNT { MATCH (:Capability) } AS wanted
  UNION ALL
  CALL db.index.fulltext.queryNodes('name', '*:*') YIELD node
  RETURN 'name' AS name, count(node) AS held, COUNT { MATCH (:Agent) } + COUNT { MATCH (:Tool) } AS wanted
}
RETURN name, held, wanted
