"""The shapes in docs/json-output.schema.json, made from the nouns: `python -m scripts.json_shapes` writes them anew.

Descriptions, and the shapes of names that are not here, are written by hand.
"""

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from waygraph.api.cli.commands.connect import ConnectOutcome
from waygraph.ingest.logins.store import Login
from waygraph.ingest.upstream.box import Grant
from waygraph.registry.embedding.weights import InstalledModel
from waygraph.registry.model import changes, nouns
from waygraph.registry.model.nouns import JsonForm, Walked
from waygraph.registry.model.shapes import field_owners
from waygraph.registry.model.usage import HostContact
from waygraph.registry.operations import answer_shapes as answers
from waygraph.registry.operators.toolset import Toolset
from waygraph.registry.routing.placement import Placement
from waygraph.registry.storage.integrity.findings import Finding
from waygraph.registry.storage.migrate import MigrationReport
from waygraph.registry.taxonomy.taxonomies import Structure
from waygraph.registry.taxonomy.tree import Drift
from waygraph_lab.evaluation.findability import Findability
from waygraph_lab.synthesis.candidate_graph import LinkSummary

FILE = Path(__file__).parents[1] / "docs" / "json-output.schema.json"
WIDTH = 120
_PLAIN: dict[Any, str] = {
    str: "string",
    Literal: "string",
    Path: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "",
    object: "",
    dict: "object",
    Mapping: "object",
}


def fields(kind: type, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """The fields of a noun's JSON, each with its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in field_owners(kind) if name not in without}


_LOGINS = {"logins": [fields(Login, without=("address", "id", "key", "box"))]}
SHAPES: dict[str, Any] = {
    "ingest": {"sources": [{"given": str, "error": str, "report": answers.Report | None}]},
    "route": nouns.Route,
    "find": nouns.ToolRoute,
    "agents": {"agents": [fields(answers.ListedAgent, without=("cannot_run",))]},
    "tools": {"tools": [nouns.Tool]},
    "show": {**fields(changes.About), "box": [Grant]},
    "set": changes.OperatorSettings,
    "set-tool": changes.OperatorSettings,
    "remove": changes.OperatorSettings,
    "changes": {"changes": [changes.Change]},
    "usage": {"usage": [answers.ToolUsage]},
    "approve": changes.Approved,
    "reject": changes.Rejections,
    "sources": {"sources": [answers.Source], "titles": dict[str, str]},
    "sources remove": changes.Forgotten,
    "cypher": changes.CypherResult,
    "status": answers.Status,
    "export": {"format": str, "path": str | None, "size_bytes": int, "content": str | None},
    "migrate": {"from": str, "to": str, **fields(MigrationReport, without=("source", "target"))},
    "reindex": changes.Written,
    "learn remove": changes.Written,
    "taxonomy build": Structure,
    "taxonomy place": Structure,
    "taxonomy check": Structure,
    "taxonomy status": [Drift],
    "taxonomy use": changes.Written,
    "taxonomy remove": changes.Written,
    "toolset create": Toolset,
    "toolset update": Toolset,
    "toolset apply": [Toolset],
    "toolset list": [Toolset],
    "toolset show": Toolset,
    "toolset remove": changes.Written,
    "graph link": LinkSummary,
    "graph unlink": LinkSummary,
    "keys create": {"key": str, **fields(changes.KeySummary)},
    "logins list": _LOGINS,
    "logins remove": _LOGINS,
    "model list": {"models": [InstalledModel]},
    "lint": {"requests": int, "first": int, "tools": [Findability], "tried": [Findability], "offers": [str]},
    "connect": ConnectOutcome,
    "connect --check": HostContact,
    "doctor": {"ok": bool, "findings": [Finding]},
    "ApiKey": changes.KeySummary,
    "Agent": nouns.Agent,
    "Tool": nouns.Tool,
    "Query": nouns.QueryJson,
    "AgentMatch": nouns.AgentMatch,
    "Vote": nouns.Vote,
    "Route": nouns.Route,
    "ToolRoute": nouns.ToolRoute,
    "Walked": Walked,
    "Placement": Placement,
    "Report": answers.Report,
    "Changes": answers.Changed,
    "Failure": answers.Failure,
    "Settings": changes.OperatorSettings,
    "Structure": Structure,
    "Findability": Findability,
    "Toolset": Toolset,
}
"""Command, event or noun → its JSON."""
_NAMES = {kind: name for name, kind in SHAPES.items() if name[0].isupper()}
_NAMES |= {answers.Tool: "Tool", Toolset: "Toolset", answers.Toolset: "Toolset"}


def write_schema(text: str) -> str:
    """The file with its shapes made anew; descriptions stay. Raises KeyError for a name that is not there."""
    document = json.loads(text)
    for name, shape in SHAPES.items():
        before = document["$defs"][name]
        is_noun = isinstance(shape, type)
        noun = _NAMES.get(shape) if is_noun and name[0].islower() else None
        new = {"$ref": f"#/$defs/{noun}"} if noun else schema_of(fields(shape) if is_noun else shape)
        document["$defs"][name] = ({"description": before["description"]} if "description" in before else {}) | new
    return f"{_layout(document)}\n"


def schema_of(shape: Any) -> dict[str, Any]:
    """The shape as JSON Schema: of a noun a reference, or its fields."""
    origin, arguments = get_origin(shape), get_args(shape)
    if isinstance(shape, dict):
        properties = {name: schema_of(each) for name, each in shape.items()}
        return {"type": "object", "required": list(shape), "properties": properties}
    if isinstance(shape, list) or origin in (tuple, list):
        return {"type": "array", "items": schema_of((arguments or shape)[0])}
    if origin is Annotated:
        kind, *notes = arguments
        return schema_of(next((note.json for note in notes if isinstance(note, JsonForm)), kind))
    if origin in (Union, UnionType):
        [kind] = [each for each in arguments if each is not type(None)]
        schema = schema_of(kind)
        is_plain = schema.keys() == {"type"}
        return {"type": [schema["type"], "null"]} if is_plain else {"anyOf": [schema, {"type": "null"}]}
    if noun := _NAMES.get(shape):
        return {"$ref": f"#/$defs/{noun}"}
    is_word = isinstance(shape, type) and issubclass(shape, Enum)
    plain = "string" if is_word else _PLAIN.get(origin or shape)
    return schema_of(fields(shape)) if plain is None else {"type": plain} if plain else {}


def _layout(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON, each value on one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) + 1 <= WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        items = ",\n".join(f"{inner}{_layout(each, inner)}" for each in value)
        return f"[\n{items}\n{indent}]"
    rows = (f"{inner}{json.dumps(name)}: {_layout(each, inner, len(name) + 4)}" for name, each in value.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    FILE.write_text(write_schema(FILE.read_text(encoding="utf-8")), encoding="utf-8")
