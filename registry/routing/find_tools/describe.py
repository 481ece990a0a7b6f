"""One tool in as few words as a language model needs: its version, what it is for, what it takes."""

import json
import re
from typing import Any, Literal, get_args

from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Tool, parse_field
from waygraph.registry.model.process import remember
from waygraph.registry.routing.tool_formats import ToolFormat, definition

Detail = Literal["names", "summary", "schema"]
DETAILS: tuple[Detail, ...] = get_args(Detail)
"""The least first."""

SUMMARY_CHARS = 200
PARAMETERS_TOLD = 12
VERSION_CHARS = 12
_NAME_CHARS = 64
_CHOICES_CHARS = 60
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(\[`])|(?<=[。！？])")
_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*")
_MARKS: dict[Detail, str] = {"names": "~~", "summary": "~", "schema": ""}
"""Behind the version: how much the caller was not told of the tool."""


def version(tool: Tool, detail: Detail = "schema") -> str:
    """12 hex digits of its content hash; behind it `~` where the summary alone is told, `~~` the name alone."""
    told = (tool.content_hash or digest(tool.name, tool.description, tool.input_schema))[:VERSION_CHARS]
    return told + _MARKS[detail]


def is_known(tool: Tool, known_version: str, detail: Detail) -> bool:
    """Whether who holds that version has all that this detail tells; names are told anyway."""
    return detail != "names" and known_version in (version(tool), version(tool, detail))


def describe_tool(tool: Tool, detail: Detail, tool_format: ToolFormat, known_version: str = "") -> dict[str, Any]:
    """`name` and `version`, and by detail `description` and `params` (in the manner of TypeScript), or the definition.

    MCP's definition without what only a host needs; any other stands whole under `definition`, as that host takes it.
    """
    named: dict[str, Any] = {"name": tool.call_name, "version": version(tool, detail)}
    if is_known(tool, known_version, detail):
        return named | {"version": known_version, "unchanged": True}
    if detail == "names":
        return named
    if detail == "summary":
        told = {"description": summary(tool.description), "params": parameters(tool.input_schema)}
        return named | {key: text for key, text in told.items() if text}
    defined = definition(tool, tool_format)
    if tool_format != "mcp":
        return named | {"definition": defined}
    return named | {key: defined[key] for key in ("description", "inputSchema") if defined[key]}


@remember
def summary(text: str) -> str:
    """The text as one line; of a long one as many whole sentences as fit, or the begin of the first."""
    line = " ".join(text[: 10 * SUMMARY_CHARS].split())
    if len(line) <= SUMMARY_CHARS:
        return line
    told = ""
    for sentence in _SENTENCE_END.split(line):
        if len(told) + len(sentence) + 1 > SUMMARY_CHARS:
            break
        told = f"{told} {sentence}".strip()
    return told or line[: SUMMARY_CHARS - 1].rsplit(" ", 1)[0] + "…"


@remember
def parameters(schema_text: str) -> str:
    """What a tool takes, what it needs first: `repo: string, labels?: string[]`; the names beyond 12 are left out."""
    schema = _parse_schema(schema_text)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    ordered = sorted(properties, key=lambda name: name not in needed)
    told = [
        f"{_name(name)}{'' if name in needed else '?'}: {_type(properties[name])}" for name in ordered[:PARAMETERS_TOLD]
    ]
    return ", ".join([*told, "…"] if len(ordered) > PARAMETERS_TOLD else told)


def _name(name: str) -> str:
    short = name[:_NAME_CHARS]
    return short if _PLAIN.fullmatch(short) else json.dumps(short, ensure_ascii=False)


def _type(schema: object) -> str:
    if not isinstance(schema, dict):
        return "any"
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and (told := _choices(choices)):
        return told
    kind = schema.get("type")
    if kind == "array":
        return _type_of_items(schema.get("items"))
    if isinstance(kind, str):
        return kind[:_NAME_CHARS]
    kinds = kind if isinstance(kind, list) else _alternatives(schema)
    return "|".join(dict.fromkeys(str(each)[:_NAME_CHARS] for each in kinds[:4] if each != "null")) or "any"


def _type_of_items(items: object) -> str:
    """Not deeper than one list: what is in it is told by the schema."""
    kind = items.get("type") if isinstance(items, dict) else None
    return f"{kind[:_NAME_CHARS]}[]" if isinstance(kind, str) else "any[]"


def _alternatives(schema: dict[str, Any]) -> list[Any]:
    some = schema.get("anyOf", schema.get("oneOf"))
    told = [each.get("type", "any") for each in some if isinstance(each, dict)] if isinstance(some, list) else []
    return [each for each in told if isinstance(each, str)]


def _choices(choices: list[Any]) -> str:
    told = "|".join(json.dumps(each, ensure_ascii=False) for each in choices[:8])
    return told + ("|…" if len(choices) > 8 else "") if 0 < len(told) <= _CHOICES_CHARS else ""


def _parse_schema(text: str) -> dict[str, Any]:
    said = parse_field(text)
    return said if isinstance(said, dict) else {}
