"""What is promised of answers: only what every host can compile, and only answers that keep it."""

from typing import Any

import pytest

from waygraph.registry.catalog.tool_formats import compiles, keeps


def of(part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, **more}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        of({"type": ["string", "null"], "enum": ["x", None]}),
        of({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"type": "array", "items": {"$ref": "#"}}}}),
        of({"type": "string", "pattern": r"^[a-z\d_-]{2,8}(?:-x)?$", "format": "date-time"}),
        of({"minimum": 1, "exclusiveMaximum": 3}, **{"$schema": "https://json-schema.org/draft/2020-12/schema"}),
        {"type": "object", "properties": {"id": {}, "$ref": {}, "nullable": {}}},
    ],
)
def test_a_plain_schema_is_promised(schema: dict[str, Any]) -> None:
    assert compiles(schema)


@pytest.mark.parametrize(
    "schema",
    [
        of({"type": "integr"}),
        of({"type": 3}),
        of({"enum": []}),
        of({"required": "a"}),
        of({"minimum": "1"}),
        of({"exclusiveMinimum": True}),
        of({"$ref": "#/$defs/nowhere"}),
        of({"$ref": "https://example.com/schema.json"}),
        of({"$ref": 4}),
        of({}, **{"$defs": {"A": {"type": "integr"}}}),
        of({"pattern": "(?i)x"}),
        of({"pattern": r"\Ax"}),
        of({"pattern": "["}),
        of({"patternProperties": {r"\p{L}": {}}}),
        of({"id": "x"}),
        of({"$id": "x"}),
        of({"nullable": True}),
        of({"const": float("nan")}),
    ],
)
def test_what_some_host_cannot_compile_is_not(schema: dict[str, Any]) -> None:
    assert not compiles(schema)


def test_what_is_too_deep_or_too_large_is_not() -> None:
    deep: Any = {}
    for _ in range(3_000):
        deep = {"not": deep}
    assert not compiles(of(deep))
    assert not compiles(of({"description": "x" * 300_000}))


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [({"a": 1}, True), ({"a": "1"}, False), ({}, False), (None, False), ([1], False), ({"a": float("nan")}, False)],
)
def test_an_answer_keeps_what_is_promised_or_not(value: Any, is_kept: bool) -> None:
    assert keeps(of({"type": "integer"}, required=["a"]), value) is is_kept
