// Takes away when each claim was confirmed, which its source says for all of them.
// params: none
// returns: none
MATCH (:Source)-[claim:CLAIMS]->(:Agent) REMOVE claim.seen_at
