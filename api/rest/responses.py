"""Answers as pydantic models, by which FastAPI describes them: made from the nouns, and from `registry.remote.answers`.

Answers in formats of others are stated here.
"""

import ast
import inspect
import sys
from dataclasses import is_dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, create_model

from waygraph.registry.model.nouns import JsonForm, Vote
from waygraph.registry.remote import answers

_OURS = answers.__name__


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


@cache
def answer_model(kind: type) -> type[BaseModel]:
    """The model of a noun, or of a class of `answers`: its fields as JSON has them, each with its text."""
    kind = _SHAPES.get(kind, kind)
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for name, base in field_owners(kind).items():
        json_type = _json_type(hints[name])
        fields[name] = (json_type, Field(_default(base, name, json_type), description=_texts(base).get(name)))
    description = kind.__doc__ if kind.__module__ == _OURS else None
    return create_model(kind.__name__.removesuffix("Json"), __base__=Answer, __doc__=description, **fields)


def field_owners(kind: type) -> dict[str, type]:
    """The fields of a noun or answer, in the order of its JSON, each with the class that states it."""
    owners: dict[str, type] = {}
    for base in reversed(kind.__mro__):
        for name in inspect.get_annotations(base):
            owners.pop(name, None)
            owners[name] = base
    return owners


_SHAPES: dict[type, type] = {
    kind.__mro__[1]: kind
    for kind in vars(answers).values()
    if isinstance(kind, type) and kind.__module__ == _OURS != kind.__mro__[1].__module__ and is_dataclass(kind)
}
"""Noun → the class that stands for it in answers."""


def _default(base: type, name: str, json_type: Any) -> Any:
    """`...`: the field is always there."""
    if base.__module__ != _OURS or name not in vars(base):
        return ...
    value = vars(base)[name]
    return None if json_type is Any else list(value) if isinstance(value, tuple) else value


def _json_type(hint: Any) -> Any:
    """The type of JSON that `shapes` writes for a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, *notes = arguments
        return _json_type(next((note.json for note in notes if isinstance(note, JsonForm)), kind))
    if origin is tuple:
        return list[_json_type(arguments[0])]  # type: ignore[misc] # made as the program runs
    if origin in (Union, UnionType):
        return reduce(or_, map(_json_type, arguments))
    is_noun = is_dataclass(hint) or is_typeddict(hint) or hint is Vote or getattr(hint, "__module__", "") == _OURS
    return answer_model(hint) if is_noun else hint


@cache
def _texts(kind: type) -> dict[str, str]:
    """The text below each field that the class itself states."""
    [body] = [each.body for each in _classes(kind.__module__) if each.name == kind.__name__]
    texts = {}
    for before, after in pairwise(body):
        match before, after:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


@cache
def _classes(module: str) -> list[ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return [each for each in tree.body if isinstance(each, ast.ClassDef)]


class ListedServer(BaseModel):
    server: dict[str, Any]
    meta: dict[str, Any] = Field(alias="_meta")


class ServerPlace(BaseModel):
    count: int
    nextCursor: str | None = None  # noqa: N815 - as the format spells it


class ServerList(BaseModel):
    servers: list[ListedServer]
    metadata: ServerPlace


class ToolResult(BaseModel):
    """A `CallToolResult` of MCP as the tool's server has it, an error that the tool tells (`isError`) included."""

    model_config = ConfigDict(extra="allow")

    content: list[dict[str, Any]] = []
    structuredContent: Any = None  # noqa: N815 - as the protocol spells it
    isError: bool = False  # noqa: N815


class FoundResource(BaseModel):
    """An entry of the catalogue, and how well it fits: 100 is the best there can be. It says nothing of trust."""

    model_config = ConfigDict(extra="allow")

    identifier: str
    displayName: str  # noqa: N815 - as the format spells it
    type: str
    url: str
    score: int = Field(ge=0, le=100)
    source: str


class FoundResources(BaseModel):
    results: list[FoundResource]
    referrals: list[dict[str, Any]] | None = None
    pageToken: str | None = None  # noqa: N815


class AiCatalog(BaseModel):
    specVersion: str  # noqa: N815 - as the format spells it
    entries: list[dict[str, Any]]


FOREIGN: dict[str, type[BaseModel]] = {
    "call_tool": ToolResult,
    "ai_catalog": AiCatalog,
    "search_resources": FoundResources,
    "servers": ServerList,
    "server_versions": ServerList,
    "server": ListedServer,
}
"""Operation → its answer."""
