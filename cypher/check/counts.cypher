// The numbers that must agree: each tool has one owner, each agent a claim.
// params: none
// returns: agents integer, tools integer, owns integer, sources integer, claims integer, changes integer, transitions integer, taxonomies integer, categories integer, holdings integer, toolsets integer, inclusions integer, skill_links integer, subjects integer
RETURN COUNT { MATCH (:Agent) } AS agents, COUNT { MATCH (:Tool) } AS tools,
       COUNT { MATCH (:Agent)-[:OWNS]->(:Tool) } AS owns, COUNT { MATCH (:Source) } AS sources,
       COUNT { MATCH (:Source)-[:CLAIMS]->(:Agent) } AS claims, COUNT { MATCH (:Change) } AS changes,
       COUNT { MATCH (:Tool)-[:FOLLOWED_BY]->(:Tool) } + COUNT { MATCH (:Agent)-[:FOLLOWED_BY]->(:Agent) } +
       COUNT { MATCH (:Registry)-[:FOLLOWED_BY]->() } AS transitions,
       COUNT { MATCH (:Taxonomy) } AS taxonomies, COUNT { MATCH (:Category) } AS categories,
       COUNT { MATCH (:Category)-[:HOLDS]->(:Agent) } + COUNT { MATCH (:Category)-[:HOLDS]->(:Tool) } AS holdings,
       COUNT { MATCH (:Toolset) } AS toolsets, COUNT { MATCH (:Toolset)-[:INCLUDES]->(:Tool) } AS inclusions,
       COUNT { MATCH (:Agent)-[:TEACHES]->(:Tool) } + COUNT { MATCH (:Agent)-[:NEEDS]->(:Agent) } AS skill_links,
       COUNT { MATCH (:Change)-[:OF]->() } + COUNT { MATCH (:Change)-[:FROM]->(:Source) } +
       COUNT { MATCH (:Setting)-[:OF]->(:Agent) } AS subjects
