// Takes away how often each tool was called, which a graph held once.
// params: none
// returns: none
MATCH (tool:Tool) REMOVE tool.calls, tool.errors, tool.last_call_at
