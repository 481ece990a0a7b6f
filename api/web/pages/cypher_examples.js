// Questions of docs/cypher.md, by their headings.

/** @type {[string, string][]} */
export const EXAMPLES = [
  [
    "Agents by their number of tools",
    `MATCH (a:Agent)
OPTIONAL MATCH (a)-[:OWNS]->(t:Tool)
RETURN a.id AS agent, count(t) AS tools ORDER BY tools DESC, agent LIMIT 5`,
  ],
  [
    "Agents without tools",
    `MATCH (a:Agent) WHERE NOT EXISTS { MATCH (a)-[:OWNS]->(:Tool) }
RETURN a.id AS agent ORDER BY agent`,
  ],
  [
    "Which tools a toolset includes",
    `MATCH (s:Toolset)-[:INCLUDES]->(t:Tool)<-[:OWNS]-(a:Agent)
RETURN s.id AS toolset, a.id AS agent, count(t) AS tools ORDER BY toolset, agent`,
  ],
];
