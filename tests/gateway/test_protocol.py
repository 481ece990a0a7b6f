"""What does not fit the protocol's schema is left out, and costs no more than itself."""

from collections.abc import Mapping
from typing import Any

import pytest

from waygraph.api.mcp.protocol import UNFIT, mend_item, mend_question, mend_result

TOOL = {"name": "t", "inputSchema": {"type": "object"}}
PROMPT, RESOURCE = {"name": "p"}, {"uri": "note://a", "name": "a"}
TEMPLATE = {"uriTemplate": "note://{a}", "name": "a"}
LISTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "tools/list": ("tools", TOOL),
    "prompts/list": ("prompts", PROMPT),
    "resources/list": ("resources", RESOURCE),
    "resources/templates/list": ("resourceTemplates", TEMPLATE),
}


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize(
    ("odd", "left"),
    [
        ({"title": None, "description": 3}, {}),
        ({"icons": [{"src": "https://example.com/i.png", "theme": "sepia"}, 4]}, {"icons": 1}),
        ({"icons": {}}, {}),
        ({"_meta": []}, {}),
        ({"more": {"kept": None}}, {"more": 1}),
    ],
)
def test_an_odd_field_is_left_out_of_every_kind(method: str, odd: dict[str, Any], left: dict[str, Any]) -> None:
    field, item = LISTS[method]
    told = mend_item(method, field, item | odd)
    assert told.keys() == item.keys() | left.keys()
    assert {name: told[name] for name in item} == item


@pytest.mark.parametrize(
    ("method", "odd", "left"),
    [
        ("tools/list", {"annotations": {"title": 4, "readOnlyHint": "yes", "destructiveHint": True}}, 1),
        ("prompts/list", {"arguments": [{"name": "a", "required": None}, {"name": 6}]}, 1),
        ("resources/list", {"annotations": {"priority": 3, "lastModified": "now", "audience": ["user"]}}, 1),
    ],
)
def test_a_part_is_left_out_of_what_stays(method: str, odd: dict[str, Any], left: int) -> None:
    field, item = LISTS[method]
    ((name, _),) = odd.items()
    assert len(mend_item(method, field, item | odd)[name]) == left


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", -1), ("size", 1.5), ("size", 2**60), ("size", True), ("mimeType", 5), ("annotations", "user")],
)
def test_a_number_or_text_of_another_kind_is_left_out(field: str, value: Any) -> None:
    assert mend_item("resources/list", "resources", RESOURCE | {field: value}) == RESOURCE


@pytest.mark.parametrize(
    ("method", "item"),
    [
        ("tools/list", {"name": "t", "inputSchema": {"type": "array"}}),
        ("tools/list", {"name": None, "inputSchema": {"type": "object"}}),
        ("prompts/list", {"title": "P"}),
        ("resources/list", {"uri": "no scheme", "name": "a"}),
        ("resources/list", "note://a"),
        ("resources/templates/list", {"uriTemplate": 1, "name": "a"}),
    ],
)
def test_an_item_that_cannot_be_mended_is_unfit(method: str, item: Any) -> None:
    assert mend_item(method, LISTS[method][0], item) is UNFIT


def test_what_is_whole_is_the_same_object() -> None:
    result = {"content": [{"type": "text", "text": "x"}], "structuredContent": [1], "more": 1}
    assert mend_result("tools/call", result) is result


@pytest.mark.parametrize("meta", [{"progressToken": {}}, {"io.modelcontextprotocol/related-task": {"taskId": 3}}])
def test_what_the_protocol_reserves_in_meta_is_of_its_kind(meta: dict[str, Any]) -> None:
    assert mend_result("tools/call", {"content": [], "_meta": {**meta, "a": None}}) == {
        "content": [],
        "_meta": {"a": None},
    }


@pytest.mark.parametrize(
    ("field", "is_fit"),
    [
        ({"type": "string", "title": None}, True),
        ({"type": "string", "enum": ["a"]}, True),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": "1"}, True),
        ({"type": "object", "properties": {}}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        (True, False),
    ],
)
def test_a_form_asks_only_for_what_hosts_show(field: Any, is_fit: bool) -> None:
    """A field that no host shows is not left out: the answer would lack it."""
    schema = {"type": "object", "properties": {"a": field}}
    told = mend_question("elicitation/create", {"message": "?", "requestedSchema": schema})
    assert (told is not UNFIT) is is_fit
