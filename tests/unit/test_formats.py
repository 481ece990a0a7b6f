"""Tools in the formats of hosts: each as its host's own rules have it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from waygraph.ingest.sources.read import read_path
from waygraph.registry.catalog.tool_formats import TOOL_FORMATS, ToolFormat, compiles, definition, definitions, keeps
from waygraph.registry.model.identity import sealed_tool, tool_id
from waygraph.registry.model.nouns import Tool, canonical_json
from waygraph.registry.model.parameters import original_arguments
from waygraph.registry.model.settings import Settings

ARGUMENTS = {
    "type": "object",
    "required": ["type", "properties"],
    "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
}
LEGAL_NAMES = {"type": "object", "propertyNames": {"pattern": "^[a-zA-Z0-9_.-]{1,64}$"}}
FLAT_ARGUMENTS = {
    "type": "object",
    "required": ["type", "properties"],
    "propertyNames": {"not": {"enum": ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"]}},
    "properties": {"type": {"const": "object"}, "properties": LEGAL_NAMES},
}
STRICT_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
TEXT = {"type": "string"}


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object of these members and no other."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": required | optional,
    }


OPENAI_FUNCTION = {"name": STRICT_NAME, "description": TEXT, "parameters": FLAT_ARGUMENTS, "strict": {"const": False}}
GEMINI_NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$"}
GEMINI_FUNCTION = closed({"name": GEMINI_NAME, "description": TEXT, "parametersJsonSchema": FLAT_ARGUMENTS})

ENTRY: dict[ToolFormat, dict[str, Any]] = {
    "mcp": closed(
        {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9_./-]{1,128}$"},
            "description": TEXT,
            "inputSchema": ARGUMENTS,
        },
        outputSchema={"type": "object", "required": ["type"]},
        annotations={"type": "object", "minProperties": 1},
    ),
    "openai": closed({"type": {"const": "function"}, "function": closed(OPENAI_FUNCTION)}),
    "openai-responses": closed({"type": {"const": "function"}} | OPENAI_FUNCTION),
    "anthropic": closed({"name": STRICT_NAME, "description": TEXT, "input_schema": FLAT_ARGUMENTS}),
    "gemini": closed({"functionDeclarations": {"type": "array", "maxItems": 512, "items": GEMINI_FUNCTION}}),
}
"""What each host takes as one entry of its list of tools."""

every_format = pytest.mark.parametrize("tool_format", TOOL_FORMATS)


@pytest.fixture(scope="module")
def catalogue_tools(catalog: Path) -> list[Tool]:
    entries = [entry for manifest in read_path(str(catalog), Settings()) for entry in manifest.entries]
    return [tool for entry in entries for tool in entry.tools]


def tool(
    agent: str = "a", name: str = "t", *, input_schema: str = "{}", output_schema: str = "", annotations: str = ""
) -> Tool:
    return sealed_tool(
        Tool(
            id=tool_id(agent, name),
            agent_id=agent,
            name=name,
            input_schema=input_schema,
            output_schema=output_schema,
            annotations=annotations,
        )
    )


def faults(defined: list[dict[str, Any]], tool_format: ToolFormat) -> list[str]:
    validator = Draft202012Validator({"type": "array", "items": ENTRY[tool_format]})
    return [fault.message for fault in validator.iter_errors(json.loads(json.dumps(defined)))]


def arguments_of(entry: dict[str, Any]) -> Any:
    """The schema of the arguments, wherever the format has it."""
    function = entry.get("function", entry)
    (key,) = function.keys() & {"parameters", "inputSchema", "input_schema", "parametersJsonSchema"}
    return function[key]


def name_of(entry: dict[str, Any]) -> str:
    return str(entry.get("function", entry)["name"])


@every_format
def test_the_catalogues_tools_are_what_the_host_takes(catalogue_tools: list[Tool], tool_format: ToolFormat) -> None:
    """All of them, each under a name of its own, with description and schema as the source states them."""
    assert len(catalogue_tools) == 186
    assert faults(definitions(catalogue_tools, tool_format), tool_format) == []
    entries = [definition(one, tool_format) for one in catalogue_tools]
    assert [name_of(entry) for entry in entries] == [one.call_name for one in catalogue_tools]
    assert len({name_of(entry) for entry in entries}) == len(entries)
    for one, entry in zip(catalogue_tools, entries, strict=True):
        assert entry.get("function", entry)["description"] == one.description
        assert arguments_of(entry) == {"properties": {}} | json.loads(one.input_schema) | {"type": "object"}


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"], "x": 1}, {"type": "object", "properties": {}, "x": 1}),
        ({"type": ["null", "object"], "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"properties": [], "required": "a"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": True, "b": False}}, {"type": "object", "properties": {"a": {}, "b": {"not": {}}}}),
    ],
)
@every_format
def test_an_object_is_kept_and_says_that_it_is_one(
    stated: dict[str, Any], told: dict[str, Any], tool_format: ToolFormat
) -> None:
    """Nothing of the schema is lost; `type` and `properties` are there even if the source left them out.

    The MCP SDK in TypeScript refuses a whole list for one `properties` or `required` of another form.
    """
    assert arguments_of(definition(tool(input_schema=canonical_json(stated)), tool_format)) == told


COMPOSED: tuple[dict[str, Any], ...] = (
    {"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b[]": {}}, "required": ["b[]"]}]},
    {"oneOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"properties": {"a": {"$ref": "#/$defs/A"}}}}, "not": {}},
    {"allOf": [{"properties": {"a b": {}}, "required": ["a b"]}, {"required": ["c>"]}], "properties": {"c>": {}}},
    {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"\N{SNOWMAN}": True, "x" * 90: False}}}},
    {"properties": {"in": {"type": "object", "properties": {"$top": {}}}}, "enum": [{}], "const": {}},
)


@pytest.mark.parametrize("schema", COMPOSED)
@every_format
def test_a_host_takes_what_is_composed_or_oddly_named(schema: dict[str, Any], tool_format: ToolFormat) -> None:
    """Flat and with legal names, by the rules of each host; for MCP it is as the source states it."""
    odd = tool(input_schema=canonical_json(schema))
    assert faults(definitions([odd], tool_format), tool_format) == []
    told = arguments_of(definition(odd, tool_format))
    if tool_format == "mcp":
        assert schema.keys() <= told.keys()
    else:
        assert set(told.get("required", ())) <= told["properties"].keys()
        assert told["properties"]


def test_names_within_are_those_that_a_call_takes_back() -> None:
    schema = canonical_json({"properties": {"q": {"type": "object", "properties": {"a b": {}}, "required": ["a b"]}}})
    told = arguments_of(definition(tool(input_schema=schema), "anthropic"))
    assert told["properties"]["q"] == {"type": "object", "properties": {"a_b": {}}, "required": ["a_b"]}
    assert original_arguments(schema, {"q": {"a_b": 1}}) == {"q": {"a b": 1}}


def test_mcp_keeps_output_and_annotations() -> None:
    """The title is among the annotations; an output that is no object, and nothing, are left out."""
    output, annotations = {"type": "object", "properties": {"n": {}}}, {"title": "T", "readOnlyHint": True}
    full = tool(output_schema=canonical_json(output), annotations=canonical_json(annotations))
    assert definition(full, "mcp") == {
        "name": "a__t",
        "description": "",
        "inputSchema": {"type": "object", "properties": {}},
        "outputSchema": output,
        "annotations": annotations,
    }
    bare = definition(replace(full, output_schema='{"type":"array"}', annotations="{}"), "mcp")
    assert bare.keys() == {"name", "description", "inputSchema"}
    odd = replace(full, output_schema='{"properties":{"n":true},"required":[1],"type":["object","null"]}')
    assert definition(odd, "mcp")["outputSchema"] == {"properties": {"n": {}}, "type": "object"}
    broken = replace(full, output_schema='{"type":"object","properties":{"n":{"type":"nmber"}}}')
    assert "outputSchema" not in definition(broken, "mcp")
    assert definition(full, "anthropic").keys() == {"name", "description", "input_schema"}


def test_no_answer_of_an_operation_over_http_is_promised() -> None:
    """Only its document says what it answers; clients refuse an answer that is otherwise."""
    call = canonical_json({"http": {"method": "GET", "path": "/tides"}})
    operation = tool(output_schema='{"type":"object"}', annotations=call)
    assert "outputSchema" not in definition(operation, "mcp")
    assert operation.output_schema


def test_mcps_own_types_take_every_tool(catalogue_tools: list[Tool]) -> None:
    from mcp.types import Tool as McpTool

    for defined in definitions(catalogue_tools, "mcp"):
        parsed = McpTool.model_validate(defined, strict=True)
        assert parsed.model_dump(by_alias=True, exclude_unset=True) == defined


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
