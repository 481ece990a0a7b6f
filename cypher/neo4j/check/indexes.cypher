// Every index with what defines it; of one that failed the reason.
// params: none
// returns: name string, kind string, state string, labels list<string>, properties list<string>, config map, failure string
SHOW INDEXES YIELD name, type, state, labelsOrTypes, properties, options, failureMessage
RETURN name, type AS kind, state, labelsOrTypes AS labels, properties, options.indexConfig AS config,
       failureMessage AS failure
ORDER BY name
