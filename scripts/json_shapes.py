"""The shapes in docs/json-output.md, made from the nouns: `python -m scripts.json_shapes` writes them anew.

The text of the page, and the shapes of headings that are not here, are written by hand.
"""

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from waygraph.api.cli.commands.connect import ConnectOutcome
from waygraph.api.rest.openapi import field_owners
from waygraph.ingest.logins.store import Login
from waygraph.registry.embedding.weights import InstalledModel
from waygraph.registry.model import changes, nouns
from waygraph.registry.model.nouns import JsonForm, Walked
from waygraph.registry.model.usage import HostContact
from waygraph.registry.operators.toolset import Toolset
from waygraph.registry.remote import answer_shapes as answers
from waygraph.registry.routing.placement import Placement
from waygraph.registry.storage.candidate_graph import LinkSummary
from waygraph.registry.storage.integrity.findings import Finding
from waygraph.registry.storage.integrity.size import Size
from waygraph.registry.storage.migrate import MigrationReport
from waygraph.registry.taxonomy.structure import Difference, Drift, Structure
from waygraph_lab.evaluation.findability import Findability

PAGE = Path(__file__).parents[1] / "docs" / "json-output.md"
WIDTH = 120
_PLAIN: dict[Any, str] = {
    str: "string",
    Literal: "string",
    Path: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "any",
    object: "any",
    dict: "object",
    Mapping: "object",
}


def fields(kind: type, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """The fields of a noun's JSON, each with its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in field_owners(kind) if name not in without}


_LOGINS = {"logins": [fields(Login, without=("address", "id", "key", "box"))]}
SHAPES: dict[str, Any] = {
    "waygraph ingest": {"sources": [{"given": str, "error": str, "report": answers.Report | None}]},
    "waygraph route": nouns.Route,
    "waygraph find": nouns.ToolRoute,
    "waygraph agents": {"agents": [fields(answers.ListedAgent, without=("cannot_run",))]},
    "waygraph tools": {"tools": [nouns.Tool]},
    "waygraph show": changes.About,
    "waygraph set": changes.OperatorSettings,
    "waygraph set-tool": changes.OperatorSettings,
    "waygraph remove": changes.OperatorSettings,
    "waygraph changes": {"changes": [changes.Change]},
    "waygraph usage": answers.Usage,
    "waygraph approve": changes.Approved,
    "waygraph reject": changes.Rejections,
    "waygraph sources": {"sources": [answers.Source]},
    "waygraph sources remove": changes.Forgotten,
    "waygraph cypher": changes.CypherResult,
    "waygraph status": answers.Status,
    "waygraph export": {"format": str, "path": str | None, "size_bytes": int, "content": str | None},
    "waygraph migrate": {"from": str, "to": str, **fields(MigrationReport, without=("source", "target"))},
    "waygraph reindex": changes.Written,
    "waygraph learn remove": changes.Written,
    "waygraph taxonomy build": Structure,
    "waygraph taxonomy place": Structure,
    "waygraph taxonomy check": Structure,
    "waygraph taxonomy status": [Drift],
    "waygraph taxonomy diff": Difference,
    "waygraph taxonomy use": changes.Written,
    "waygraph taxonomy remove": changes.Written,
    "waygraph toolset create": Toolset,
    "waygraph toolset update": Toolset,
    "waygraph toolset apply": [Toolset],
    "waygraph toolset list": [Toolset],
    "waygraph toolset show": Toolset,
    "waygraph toolset remove": changes.Written,
    "waygraph graph link": LinkSummary,
    "waygraph graph unlink": LinkSummary,
    "waygraph keys create": {"key": str, **fields(changes.KeySummary)},
    "waygraph logins list": _LOGINS,
    "waygraph logins remove": _LOGINS,
    "waygraph model list": {"models": [InstalledModel]},
    "waygraph lint": {"requests": int, "first": int, "tools": [Findability], "tried": [Findability]},
    "waygraph connect": ConnectOutcome,
    "waygraph connect --check": HostContact,
    "waygraph doctor": {"ok": bool, "findings": [Finding]},
    "waygraph doctor --size": {"embedder": str, "measured": [Size], "estimated": [Size]},
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
"""Heading → the JSON below it."""
_NAMES = {kind: heading for heading, kind in SHAPES.items() if not heading.startswith("waygraph")}
_NAMES |= {answers.Tool: "Tool", Toolset: "Toolset", answers.Toolset: "Toolset"}


def write_page(text: str) -> str:
    """The page with its shapes made anew. Raises KeyError for a heading that is not there."""
    for heading, shape in SHAPES.items():
        block = re.compile(rf"^#+ {re.escape(heading)}\n(?:(?!^#).*\n)*?```json\n((?:.*\n)*?)```\n", re.M)
        found = block.search(text)
        if not found:
            raise KeyError(heading)
        is_noun = isinstance(shape, type)
        name = _NAMES.get(shape) if is_noun and heading.startswith("waygraph") else None
        new = _layout(name or notation(fields(shape) if is_noun else shape))
        text = f"{text[: found.start(1)]}{new}\n{text[found.end(1) :]}"
    return text


def notation(shape: Any) -> Any:
    """The shape as the page writes it: of a type its name there, or its fields."""
    origin, arguments = get_origin(shape), get_args(shape)
    if isinstance(shape, dict):
        return {name: notation(each) for name, each in shape.items()}
    if isinstance(shape, list) or origin in (tuple, list):
        return [notation((arguments or shape)[0])]
    if origin is Annotated:
        kind, *notes = arguments
        return notation(next((note.json for note in notes if isinstance(note, JsonForm)), kind))
    if origin in (Union, UnionType):
        [kind] = [each for each in arguments if each is not type(None)]
        named = notation(kind)
        return f"{'Groups' if named == ['string'] else named} | null"
    if isinstance(shape, type) and issubclass(shape, Enum):
        return "string"
    return _NAMES.get(shape) or _PLAIN.get(origin or shape) or notation(fields(shape))


def _layout(shape: Any, indent: str = "", before: int = 0) -> str:
    """JSON, each value on one line if it fits."""
    line = json.dumps(shape)
    if len(indent) + before + len(line) + 1 <= WIDTH or isinstance(shape, str):
        return line
    inner = f"{indent}  "
    if isinstance(shape, list):
        return f"[\n{inner}{_layout(shape[0], inner)}\n{indent}]"
    rows = (f"{inner}{json.dumps(name)}: {_layout(each, inner, len(name) + 4)}" for name, each in shape.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
