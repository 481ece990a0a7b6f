// What operators said of agents.
// params: none
// returns: agent_id string, tags list<string>, restricted boolean, visible_to list<string>, pinned boolean, hidden boolean, removed boolean, tools string, rejections string, wishes string
MATCH (setting:Setting)
RETURN setting.id AS agent_id, setting.tags AS tags, setting.restricted AS restricted,
       setting.visible_to AS visible_to, setting.pinned AS pinned, setting.hidden AS hidden,
       setting.removed AS removed, coalesce(setting.tools, '') AS tools,
       coalesce(setting.rejections, '') AS rejections, coalesce(setting.wishes, '') AS wishes
ORDER BY agent_id
