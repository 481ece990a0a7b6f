// What the copy is of that is not whole yet; no row if there is none.
// params: none
// returns: place string, revision integer, commit string
MATCH (copy:Copy {id: 'copy'})
RETURN copy.place AS place, copy.revision AS revision, copy.commit AS commit
