// The skills that name anything, with the names that they write, folded.
// params: none
// returns: id string, names list<string>
MATCH (skill:Agent) WHERE size(skill.names) > 0
RETURN skill.id AS id, skill.names AS names ORDER BY id
