// What operators said of the given agents.
// params: agent_ids list<string>
// returns: agent_id string, tags list<string>, restricted boolean, visible_to list<string>, pinned boolean, hidden boolean, removed boolean, tools string, rejections string, wishes string
UNWIND $agent_ids AS wanted
MATCH (setting:Setting {id: wanted})
RETURN setting.id AS agent_id, setting.tags AS tags, setting.restricted AS restricted,
       setting.visible_to AS visible_to, setting.pinned AS pinned, setting.hidden AS hidden,
       setting.removed AS removed, coalesce(setting.tools, '') AS tools,
       coalesce(setting.rejections, '') AS rejections, coalesce(setting.wishes, '') AS wishes
ORDER BY agent_id
