// Labels of nodes such as a copy brings; before it comes there are none.
// params: none
// returns: label string
MATCH (node:Agent|Tool|Source|Setting|Change|Taxonomy|Category|Toolset|Term)
UNWIND labels(node) AS label
RETURN DISTINCT label ORDER BY label
