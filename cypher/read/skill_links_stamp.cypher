// Another text after each change of what skills teach or need.
// params: none
// returns: stamp string
MATCH (registry:Registry) RETURN coalesce(registry.skill_links, '') AS stamp
