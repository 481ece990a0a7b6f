"""Tools as a host of language models takes them: MCP, OpenAI's two protocols, Anthropic, Gemini.

A tool appears under its call name, in MCP too: names of tools are unique within one agent only, and a host has the
tools of many. `Registry.tool` takes that name back. Descriptions are as the source states them, and so are schemas for
MCP. The other hosts refuse a whole request for one schema that composes its parameters at the top, or has a property
of a name that they do not take: for them the parameters are laid flat, and the names that stand for others are taken
back by whatever runs the tool (`original_arguments`).

`describe_tool` tells a tool in few words: its version, what it is for, what it takes.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import batched
from typing import Any, Literal, Protocol, get_args

from waygraph.registry.model.arguments import MAX_SCHEMA_CHARS, compile_schema, is_affordable
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.identity import describes_object, digest
from waygraph.registry.model.nouns import JsonText, Tool, parse_field
from waygraph.registry.model.parameters import (
    MOST_DEEP,
    follow_reference,
    host_names,
    lay_flat,
    parameters_of_text,
    rename_properties,
    resolve,
    subschemas,
)
from waygraph.registry.model.process import remember

ToolFormat = Literal["mcp", "openai", "openai-responses", "anthropic", "gemini"]
TOOL_FORMATS: tuple[ToolFormat, ...] = get_args(ToolFormat)

GEMINI_DECLARATIONS = 512
"""The most that one of Gemini's tools may declare."""


def definitions(tools: Iterable[Tool], tool_format: ToolFormat) -> list[dict[str, Any]]:
    """What the host takes as its list of tools, in the order given.

    One entry a tool; for Gemini one entry for each 512 of them, which holds their `functionDeclarations`. A tool that
    waits for approval is left out: a host would let its model call it. Raises UnknownName for another format.
    """
    entries = [definition(tool, tool_format) for tool in tools if not tool.pending]
    if tool_format == "gemini":
        return [{"functionDeclarations": list(some)} for some in batched(entries, GEMINI_DECLARATIONS)]
    return entries


def definition(tool: Tool, tool_format: ToolFormat) -> dict[str, Any]:
    """One tool, as a value that JSON carries; for Gemini a function declaration. Raises UnknownName."""
    fields = {"name": tool.call_name, "description": tool.description}
    if tool_format == "mcp":
        return fields | {"inputSchema": _object_schema(parse_field(tool.input_schema))} | _told_by_mcp(tool)
    schema = host_schema(tool.input_schema)
    match tool_format:
        case "openai":
            return {"type": "function", "function": fields | {"parameters": schema, "strict": False}}
        case "openai-responses":
            return {"type": "function"} | fields | {"parameters": schema, "strict": False}
        case "anthropic":
            return fields | {"input_schema": schema}
        case "gemini":
            return fields | {"parametersJsonSchema": schema}
        case _:
            raise UnknownName("tool format", tool_format, TOOL_FORMATS)


def _told_by_mcp(tool: Tool) -> dict[str, Any]:
    """What MCP has beside name, description and input; annotations hold the title."""
    output, annotations = parse_field(tool.output_schema), parse_field(tool.annotations)
    fields: dict[str, Any] = {}
    # Up to the revision of 2025-11-25 a client refuses a whole list for one output that is no object, and the SDK in
    # TypeScript for one that it cannot compile. A client also refuses an answer that does not fit: of an operation over
    # HTTP only a document promises what it is.
    is_operation = isinstance(annotations, dict) and "http" in annotations
    if (
        not is_operation
        and describes_object(output)
        and compiles(output_schema := _readable(output) | {"type": "object"})
    ):
        fields["outputSchema"] = output_schema
    if isinstance(annotations, dict) and annotations:
        fields["annotations"] = annotations
    return fields


def host_schema(text: JsonText) -> dict[str, Any]:
    """The schema of the arguments with names that every host takes, and nothing that composes it at its top."""
    schema = parse_field(text)
    flat = lay_flat(schema) if isinstance(schema, dict) and describes_object({"type": "object"} | schema) else {}
    return _object_schema(rename_properties(flat, host_names(text)))


def _object_schema(schema: Any) -> dict[str, Any]:
    """The schema of the arguments: hosts demand an object, and some of them its `properties`."""
    if not isinstance(schema, dict) or not describes_object({"type": "object"} | schema):
        schema = {}
    readable = _readable(schema)
    return readable | {"type": "object", "properties": readable.get("properties", {})}


def _readable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with `properties` and `required` of the form that clients read, who refuse a whole list for one that
    is not; what is malformed is left out, and says nothing anyway.
    """
    copy = dict(schema)
    if "properties" in schema and not _all(schema["properties"], Mapping, Mapping):
        copy["properties"] = {name: _as_object(each) for name, each in _items(schema["properties"])}
    if "required" in schema and not _all(schema["required"], list, str):
        del copy["required"]
    return copy


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


Detail = Literal["names", "summary", "schema"]
DETAILS: tuple[Detail, ...] = get_args(Detail)
"""The least first."""

SUMMARY_CHARS = 200
PARAMETERS_TOLD = 12
VERSION_CHARS = 12
_NAME_CHARS = 64
_CHOICES_CHARS = 60
_MOST_ALTERNATIVES = 8
"""Of a parameter that may be of several kinds."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(\[`])|(?<=[。！？])")
_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*")
_MARKS: dict[Detail, str] = {"names": "~~", "summary": "~", "schema": ""}
"""Behind the version: how much the caller was not told of the tool."""


def version(tool: Tool, detail: Detail = "schema") -> str:
    """12 hex digits of its content hash; behind it `~` where the summary alone is told, `~~` the name alone."""
    hash_prefix = (tool.content_hash or digest(tool.name, tool.description, tool.input_schema))[:VERSION_CHARS]
    return hash_prefix + _MARKS[detail]


def is_known(tool: Tool, known_version: str, detail: Detail) -> bool:
    """Whether who holds that version has all that this detail tells; names are told anyway."""
    return detail != "names" and known_version in (version(tool), version(tool, detail))


def describe_tool(tool: Tool, detail: Detail, tool_format: ToolFormat, known_version: str = "") -> dict[str, Any]:
    """`name` and `version`, and by detail `description` and `params` (in the manner of TypeScript), or the definition.

    MCP's definition without what only a host needs; any other stands whole under `definition`, as that host takes it.
    """
    fields: dict[str, Any] = {"name": tool.call_name, "version": version(tool, detail)}
    if is_known(tool, known_version, detail):
        return fields | {"version": known_version, "unchanged": True}
    if detail == "names":
        return fields
    if detail == "summary":
        texts = {"description": summary(tool.description), "params": parameters(tool.input_schema)}
        return fields | {key: text for key, text in texts.items() if text}
    entry = definition(tool, tool_format)
    if tool_format != "mcp":
        return fields | {"definition": entry}
    return fields | {key: entry[key] for key in ("description", "inputSchema") if entry[key]}


@remember
def summary(text: str) -> str:
    """The text as one line; of a long one as many whole sentences as fit, or the begin of the first."""
    line = " ".join(text[: 10 * SUMMARY_CHARS].split())
    if len(line) <= SUMMARY_CHARS:
        return line
    short = ""
    for sentence in _SENTENCE_END.split(line):
        if len(short) + len(sentence) + 1 > SUMMARY_CHARS:
            break
        short = f"{short} {sentence}".strip()
    return short or line[: SUMMARY_CHARS - 1].rsplit(" ", 1)[0] + "…"


@remember
def parameters(schema_text: str) -> str:
    """What a tool takes, what it needs first: `repo: string, labels?: string[]`; the names beyond 12 are left out."""
    schema, root = parameters_of_text(schema_text), parse_field(schema_text)
    names = sorted(schema.properties, key=lambda name: name not in schema.required)
    entries = [
        f"{_name(name)}{'' if name in schema.required else '?'}: {_type(resolve(schema.properties[name], root), root)}"
        for name in names[:PARAMETERS_TOLD]
    ]
    return ", ".join([*entries, "…"] if len(names) > PARAMETERS_TOLD else entries)


def _name(name: str) -> str:
    short = name[:_NAME_CHARS]
    return short if _PLAIN.fullmatch(short) else json.dumps(short, ensure_ascii=False)


def _type(schema: object, whole: object, *, is_alternative: bool = False) -> str:
    if not isinstance(schema, dict):
        return "any"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and (choice_text := _choices(choices)):
        return choice_text
    kind = schema.get("type")
    if kind == "array":
        return _type_of_items(resolve(schema.get("items"), whole))
    if isinstance(kind, str):
        return kind[:_NAME_CHARS]
    kinds = kind if isinstance(kind, list) else [] if is_alternative else _alternatives(schema, whole)
    return "|".join(dict.fromkeys(str(each)[:_NAME_CHARS] for each in kinds[:4] if each != "null")) or "any"


def _type_of_items(items: object) -> str:
    """Not deeper than one list: what is in it is told by the schema."""
    kind = items.get("type") if isinstance(items, dict) else None
    return f"{kind[:_NAME_CHARS]}[]" if isinstance(kind, str) else "any[]"


def _alternatives(schema: dict[str, Any], whole: object) -> list[Any]:
    some = schema.get("anyOf", schema.get("oneOf"))
    some = [resolve(each, whole) for each in some[:_MOST_ALTERNATIVES]] if isinstance(some, list) else []
    kinds = [each for each in some if isinstance(each, dict) and each.get("type") != "null"]
    return [_type(each, whole, is_alternative=True) for each in kinds]


def _choices(choices: list[Any]) -> str:
    text = "|".join(json.dumps(each, ensure_ascii=False) for each in choices[:8])
    return text + ("|…" if len(choices) > 8 else "") if 0 < len(text) <= _CHOICES_CHARS else ""


# What a tool's answers promise, and values against schemas of ours.
#
# A host on the SDK in TypeScript compiles each schema of an answer when it lists tools. It refuses the whole list for
# one that it cannot compile, and each answer that does not fit. So only what surely compiles there is promised.


class Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...


def validator_of(schema: Mapping[str, Any], formats: Mapping[str, Callable[[str], bool]]) -> Validator:
    """Of draft 2020-12, which looks at these formats."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True, formats=dict(formats))


def is_valid(validator: Validator, value: Any) -> bool:
    """False also for what cannot be looked at: a number that JSON does not have, or values nested too deep."""
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


_REFUSED_KEYWORDS = frozenset({"id", "$id", "$async", "$anchor", "$dynamicRef", "$recursiveRef", "nullable"})
"""Keywords that ajv refuses, or reads in a way of its own."""
_PATTERN = re.compile(
    r"(?:\\[dDwWsSbBnrt^$.*+?()|/\\\[\]{}]"
    r"|\[\^?(?:\\[dDwWsSnrt^$.*+?()|/\\\[\]{}-]|[^\\\]\[])+\]"
    r"|\((?!\?)|\)|\(\?(?:[:=!]|<[=!])|\{\d{1,4}(?:,\d{0,4})?\}|[^\\\[\](){}])*+"
)
"""A pattern as all engines read it, among them those of ECMAScript with `u`."""


def compiles(schema: Mapping[str, Any]) -> bool:
    """Whether every host can compile it: of no reference to elsewhere, and no keyword of another value than agreed."""
    try:
        text = json.dumps(schema, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    if len(text) > MAX_SCHEMA_CHARS or not _is_of_draft(schema):
        return False
    return (
        all(_is_portable(part, schema) for part in _subschemas_within(schema)) and compile_schema(text)[1] is not None
    )


def keeps(schema: Mapping[str, Any], value: object) -> bool:
    """Whether an answer is what the schema promises; what cannot be checked within bounds is not."""
    whole, validator = compile_schema(json.dumps(schema))
    if validator is None or not isinstance(value, Mapping) or not is_affordable(whole, value):
        return False
    return is_valid(validator, dict(value))


def _is_of_draft(schema: Mapping[str, Any]) -> bool:
    """Whether each keyword has a value of the kind that it takes, by draft 7's meta-schema, which has no `$defs`."""
    import jsonschema_rs

    definitions = [each for key in ("definitions", "$defs") if isinstance(each := schema.get(key, {}), Mapping)]
    by_place = {f"{place}{name}": each for place, some in enumerate(definitions) for name, each in some.items()}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    try:
        return jsonschema_rs.meta.is_valid({**schema, "definitions": by_place} | draft_7)
    except (ValueError, RecursionError):
        return False


def _subschemas_within(schema: Any) -> Iterator[dict[str, Any] | None]:
    """The schema and all within it; None for what is nested too deep to be looked at."""
    pending = [(schema, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > MOST_DEEP:
            yield None
            return
        if isinstance(part, dict):
            yield part
            pending += [(each, depth + 1) for each in subschemas(part)]


def _is_portable(part: dict[str, Any] | None, whole: Mapping[str, Any]) -> bool:
    if part is None or not _REFUSED_KEYWORDS.isdisjoint(part):
        return False
    if part.get("enum", [None]) == []:
        return False
    if "$ref" in part and follow_reference(whole, str(part["$ref"])) is None:
        return False
    patterns = [part.get("pattern", ""), *part.get("patternProperties", ())]
    return all(_is_portable_pattern(pattern) for pattern in patterns)


def _is_portable_pattern(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return _PATTERN.fullmatch(pattern) is not None
