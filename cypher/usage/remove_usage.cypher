// Takes from all tools how often they were called.
// params: none
// returns: none
MATCH (tool:Tool) WHERE tool.calls IS NOT NULL REMOVE tool.calls, tool.errors, tool.last_call_at
