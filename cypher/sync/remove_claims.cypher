// Ends a source's claims on the given agents.
// params: source string, agent_ids list<string>
// returns: none
UNWIND $agent_ids AS released
MATCH (:Source {id: $source})-[claim:CLAIMS]->(:Agent {id: released})
DELETE claim
