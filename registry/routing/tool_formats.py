"""Tools as a host of language models takes them: MCP, OpenAI's two protocols, Anthropic, Gemini.

A tool appears under its call name, in MCP too: names of tools are unique within one agent only, and a host has the
tools of many. `Registry.tool` takes that name back. Descriptions and schemas are as the source states them; whether
a host takes every keyword of a schema is the host's affair.
"""

from collections.abc import Iterable, Mapping
from itertools import batched
from typing import Any, Literal, get_args

from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.identity import describes_object
from waygraph.registry.model.nouns import JsonText, Tool, parse_field

ToolFormat = Literal["mcp", "openai", "openai-responses", "anthropic", "gemini"]
TOOL_FORMATS: tuple[ToolFormat, ...] = get_args(ToolFormat)

GEMINI_DECLARATIONS = 512
"""The most that one of Gemini's tools may declare."""


def definitions(tools: Iterable[Tool], tool_format: ToolFormat) -> list[dict[str, Any]]:
    """What the host takes as its list of tools, in the order given.

    One entry a tool; for Gemini one entry for each 512 of them, which holds their `functionDeclarations`. A tool that
    waits for approval is left out: a host would let its model call it. Raises UnknownName for another format.
    """
    defined = [definition(tool, tool_format) for tool in tools if not tool.pending]
    if tool_format == "gemini":
        return [{"functionDeclarations": list(some)} for some in batched(defined, GEMINI_DECLARATIONS)]
    return defined


def definition(tool: Tool, tool_format: ToolFormat) -> dict[str, Any]:
    """One tool, as a value that JSON carries; for Gemini a function declaration. Raises UnknownName."""
    named = {"name": tool.call_name, "description": tool.description}
    schema = _object_schema(tool.input_schema)
    match tool_format:
        case "mcp":
            return named | {"inputSchema": schema} | _told_by_mcp(tool)
        case "openai":
            return {"type": "function", "function": named | {"parameters": schema, "strict": False}}
        case "openai-responses":
            return {"type": "function"} | named | {"parameters": schema, "strict": False}
        case "anthropic":
            return named | {"input_schema": schema}
        case "gemini":
            return named | {"parametersJsonSchema": schema}
        case _:
            raise UnknownName("tool format", tool_format, TOOL_FORMATS)


def _told_by_mcp(tool: Tool) -> dict[str, Any]:
    """What MCP has beside name, description and input; annotations hold the title."""
    output, annotations = parse_field(tool.output_schema), parse_field(tool.annotations)
    told: dict[str, Any] = {}
    # Up to the revision of 2025-11-25 a client refuses a whole list for one output that is no object.
    if describes_object(output):
        told["outputSchema"] = _readable(output) | {"type": "object"}
    if isinstance(annotations, dict) and annotations:
        told["annotations"] = annotations
    return told


def _object_schema(text: JsonText) -> dict[str, Any]:
    """The schema of the arguments: hosts demand an object, and some of them its `properties`."""
    schema = parse_field(text)
    if not isinstance(schema, dict) or not describes_object({"type": "object"} | schema):
        schema = {}
    readable = _readable(schema)
    return readable | {"type": "object", "properties": readable.get("properties", {})}


def _readable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `properties` and `required` of the form that clients read, who refuse a whole list for one that
    is not; what is malformed is left out, and says nothing anyway.
    """
    told = dict(schema)
    if "properties" in schema and not _all(schema["properties"], Mapping, Mapping):
        told["properties"] = {name: _as_object(each) for name, each in _items(schema["properties"])}
    if "required" in schema and not _all(schema["required"], list, str):
        del told["required"]
    return told


def _all(whole: object, kind: type, of: type) -> bool:
    parts = whole.values() if isinstance(whole, Mapping) else whole
    return isinstance(whole, kind) and isinstance(parts, Iterable) and all(isinstance(part, of) for part in parts)


def _items(properties: object) -> Iterable[tuple[str, Any]]:
    return properties.items() if isinstance(properties, Mapping) else ()


def _as_object(schema: object) -> Any:
    """`true` and `false` are schemas too (JSON Schema 2020-12, 4.3.2), which not every client knows."""
    if isinstance(schema, Mapping):
        return schema
    return {"not": {}} if schema is False else {}
