"""Which tool gives the id that a call requires."""

import json

import pytest

from waygraph.registry.catalog.needs import need_of
from waygraph.registry.model.nouns import Tool


def tool(name: str, *required: str, gives: str = "") -> Tool:
    schema = {"type": "object", "properties": {each: {} for each in required}, "required": list(required)}
    output = json.dumps({"type": "object", "properties": {gives: {}}}) if gives else ""
    return Tool(id=f"a/{name}", agent_id="a", name=name, input_schema=json.dumps(schema), output_schema=output)


@pytest.mark.parametrize(
    ("wanting", "givers", "expected"),
    [
        (tool("delete_task", "taskId"), [tool("list_tasks"), tool("create_task"), tool("search")], "list_tasks"),
        (tool("mark_task_done", "task_id"), [tool("get_next_task")], "get_next_task"),
        (tool("close_scan", "scan_id"), [tool("start_scan", "url")], "start_scan"),
        (tool("get_page", "pageId"), [tool("open_it", gives="page_id"), tool("list_pages")], "open_it"),
        (tool("updatePolicy", "policyId"), [tool("listPolicies"), tool("listPolicyRules")], "listPolicies"),
        (tool("drive_get", "driveId"), [tool("drive_search"), tool("drive_drives_list")], "drive_drives_list"),
        (tool("get_app", "app_id"), [tool("list_group_apps", "group_id")], ""),
        (tool("papers_batch", "paperIds"), [tool("papers_get", "paperId")], ""),
        (tool("get_report", "reportId"), [tool("get_one_report", "id")], ""),
        (tool("get_assignment", "assignment_id"), [tool("assignments_by_course_name")], ""),
        (tool("say", "text"), [tool("list_texts")], ""),
        (tool("valid", "valid"), [tool("list_val")], ""),
    ],
    ids=lambda each: each.name if isinstance(each, Tool) else "",
)
def test_the_tool_that_gives_an_id(wanting: Tool, givers: list[Tool], expected: str) -> None:
    need = need_of(wanting, [wanting, *givers])
    assert (need.tool.name if need else "") == expected
