// Every taxonomy as a whole, and the category that it begins with.
// params: none
// returns: name string, of string, built_by string, built_at string, revision integer, calls integer, prompt_tokens integer, completion_tokens integer, settings string, current boolean, private list<string>, shown_to_all boolean, root string
MATCH (taxonomy:Taxonomy)-[:ROOT]->(root:Category)
RETURN taxonomy.id AS name, taxonomy.of AS of, taxonomy.built_by AS built_by, taxonomy.built_at AS built_at,
       taxonomy.revision AS revision, taxonomy.calls AS calls, taxonomy.prompt_tokens AS prompt_tokens,
       taxonomy.completion_tokens AS completion_tokens, taxonomy.settings AS settings, taxonomy.current AS current,
       taxonomy.private AS private, taxonomy.shown_to_all AS shown_to_all, root.id AS root
ORDER BY name
