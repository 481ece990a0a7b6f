"""What a request gives to single tools: for their arguments, names and verbs; and which tool gives an id."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.model.nouns import Tool
from waygraph.registry.routing.needs import Givers
from waygraph.registry.routing.ranking import ARGUMENT_SHARE, MOST_ARGUMENTS, NAME_SHARE, REMOVAL_SHARE, judge_calls

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def tool(
    name: str,
    properties: Mapping[str, Any] | None = None,
    *,
    description: str = "",
    hints: Mapping[str, bool] | None = None,
    required: bool = True,
) -> Tool:
    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {}) if required else []}
    return Tool(
        id=f"a/{name}",
        agent_id="a",
        name=name,
        call_name=f"a__{name}",
        description=description,
        input_schema=json.dumps(schema),
        annotations=json.dumps(hints) if hints else "",
    )


def share(text: str, one: Tool, lean: float = -1.0) -> float:
    """Of a score of 2, which is the best."""
    facts = CallFacts.unpack(CallFacts.of(one).pack())  # as an index keeps them
    assert facts == CallFacts.of(one)
    column = judge_calls(text, np.asarray([7], np.int64), [facts], 2.0, lambda: lean)
    return 0.0 if column is None else float(column.parts[0]) / 2


@pytest.mark.parametrize(
    ("text", "properties", "missing"),
    [
        ("what became of my order", {"order_id": TEXT}, 1),
        ("what became of order A-17", {"order_id": TEXT}, 0),
        ("show the user", {"userId": TEXT}, 1),
        ("show it", {"key": {"type": "string", "format": "uuid"}}, 1),
        ("is it valid", {"valid": TEXT}, 0),
        ("what is on", {"date": TEXT}, 1),
        ("what is on tomorrow", {"date": TEXT}, 0),
        ("what is on", {"from": {"type": "string", "format": "date"}}, 1),
        ("read the page", {"url": TEXT}, 1),
        ("read www.example.org", {"url": TEXT}, 0),
        ("write to Ann", {"to": {"type": "string", "format": "email"}}, 1),
        ("write to ann@example.org", {"to": {"type": "string", "format": "email"}}, 0),
        ("seats please", {"seats": WHOLE}, 1),
        ("two seats please", {"seats": WHOLE}, 0),
        ("make it bright", {"color": {"enum": ["red", "dark blue"]}}, 1),
        ("make it dark blue", {"color": {"enum": ["red", "dark blue"]}}, 0),
        ("any text will do", {"query": TEXT}, 0),
        ("nothing", {"a_id": TEXT, "b_id": TEXT, "c_id": TEXT, "d_id": TEXT}, MOST_ARGUMENTS),
    ],
)
def test_required_arguments_that_the_request_does_not_give_count_against_a_tool(
    text: str, properties: Mapping[str, Any], missing: int
) -> None:
    assert share(text, tool("x", properties)) == pytest.approx(-ARGUMENT_SHARE * missing)
    assert share(text, tool("x", properties, required=False)) == 0


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("open a pull request", "open_pull_request", NAME_SHARE),
        ("please open a pull request for the fix", "openPullRequest", NAME_SHARE),
        ("open the request", "open_pull_request", 0),
        ("what time is it", "time", 0),
        ("search", "search", 0),
        ("open the door, pull the curtain and then send my request for more wine to the kitchen", "pull_request", 0),
    ],
)
def test_words_that_cover_a_name_of_several_words_name_the_tool(text: str, name: str, expected: float) -> None:
    assert share(text, tool(name)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "lean", "expected"),
    [
        (tool("cancel_order"), -0.1, -REMOVAL_SHARE),
        (tool("cancel_order"), 0.1, 0),
        (tool("orderDelete"), -0.1, -REMOVAL_SHARE),
        (tool("forget", description="Deletes a note for good."), -0.1, -REMOVAL_SHARE),
        (tool("buy_order"), -0.1, 0),
        (tool("buy_order", hints={"destructiveHint": True}), -0.1, 0),
        (tool("cancel_order", hints={"destructiveHint": True}), -0.1, -REMOVAL_SHARE),
        (tool("cancel_order", hints={"destructiveHint": False}), -0.1, 0),
        (tool("close_report", hints={"readOnlyHint": True}), -0.1, 0),
        (tool("close_report", hints={"readOnlyHint": True, "destructiveHint": True}), -0.1, -REMOVAL_SHARE),
        (tool("remove_kettle"), -0.1, 0),
    ],
)
def test_a_tool_that_removes_counts_less_where_nothing_is_to_be_removed(
    one: Tool, lean: float, expected: float
) -> None:
    """Its verb stands in the request, or the request leans towards it by its meaning."""
    text = "remove the kettle" if one.name == "remove_kettle" else "two kettles"
    name_share = NAME_SHARE if one.name == "remove_kettle" else 0
    assert share(text, one, lean) == pytest.approx(expected + name_share)


def needing(name: str, *required: str, gives: str = "") -> Tool:
    schema = {"type": "object", "properties": {each: {} for each in required}, "required": list(required)}
    output = json.dumps({"type": "object", "properties": {gives: {}}}) if gives else ""
    return Tool(id=f"a/{name}", agent_id="a", name=name, input_schema=json.dumps(schema), output_schema=output)


@pytest.mark.parametrize(
    ("wanting", "givers", "expected"),
    [
        (
            needing("delete_task", "taskId"),
            [needing("list_tasks"), needing("create_task"), needing("search")],
            "list_tasks",
        ),
        (needing("mark_task_done", "task_id"), [needing("get_next_task")], "get_next_task"),
        (needing("close_scan", "scan_id"), [needing("start_scan", "url")], "start_scan"),
        (needing("get_page", "pageId"), [needing("open_it", gives="page_id"), needing("list_pages")], "open_it"),
        (needing("updatePolicy", "policyId"), [needing("listPolicies"), needing("listPolicyRules")], "listPolicies"),
        (needing("drive_get", "driveId"), [needing("drive_search"), needing("drive_drives_list")], "drive_drives_list"),
        (needing("get_app", "app_id"), [needing("list_group_apps", "group_id")], ""),
        (needing("papers_batch", "paperIds"), [needing("papers_get", "paperId")], ""),
        (needing("get_report", "reportId"), [needing("get_one_report", "id")], ""),
        (needing("get_assignment", "assignment_id"), [needing("assignments_by_course_name")], ""),
        (needing("say", "text"), [needing("list_texts")], ""),
        (needing("valid", "valid"), [needing("list_val")], ""),
    ],
    ids=lambda each: each.name if isinstance(each, Tool) else "",
)
def test_the_tool_that_gives_an_id(wanting: Tool, givers: list[Tool], expected: str) -> None:
    need = Givers([wanting, *givers]).need_of(wanting)
    assert (need.tool.name if need else "") == expected
