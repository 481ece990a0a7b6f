"""The OpenAPI document: what it says of each operation, and the models by which FastAPI describes answers.

A model is made of a noun, or of a class of `registry.operations.answer_shapes`. An answer in a format of others is an
object, which their specification describes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, reduce
from importlib.resources import files
from operator import or_
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, create_model

from waygraph.registry.http.problems import MEDIA_TYPE, Problem
from waygraph.registry.model.nouns import JsonForm, Vote
from waygraph.registry.model.shapes import field_owners, field_texts
from waygraph.registry.operations import answer_shapes as answers
from waygraph.registry.operations.request import Operation, PartRequest, Request
from waygraph.registry.operations.table import OPERATIONS

_PROBLEMS = {
    400: "What was sent is not JSON that can be read.",
    401: "It is not known who calls.",
    403: "The caller may not do this, or not see all that it needs.",
    404: "There is no such thing, or not for this caller; or no registry yet.",
    408: "The request was not sent in time.",
    409: "It cannot be done as the registry is now.",
    413: "The request is too large.",
    415: "A body that does not say that it is JSON.",
    421: "The service has another name.",
    422: "The request is not as it must be; `facts.faults` says where.",
    429: "Too many requests; `Retry-After` says when the next is taken.",
    431: "The request's address and headers are too large.",
    500: "A fault of the service; its log knows more under `instance`.",
    503: "Not now; try again.",
    507: "The disk is full.",
}
_WHO_CALLS: dict[str, dict[str, str]] = {
    "HTTPBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a token of the issuer that the service trusts.",
    },
    "APIKeyHeader": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}
"""How a request shows it: one of these."""


@cache
def examples() -> dict[str, Any]:
    """By operation: `request`, where it takes one, and `answer`; also `problem`."""
    import yaml

    document: dict[str, Any] = yaml.safe_load(files("waygraph.api.rest").joinpath("examples.yaml").read_text("utf-8"))
    return document | {each.name: each.example for each in OPERATIONS.values() if each.example}


def describe(operation: Operation) -> dict[str, Any]:
    """What FastAPI takes of an operation, beside its path."""
    responses: dict[int | str, dict[str, Any]] = {200: _good(operation)}
    if operation.is_conditional:
        responses[304] = {"description": "The caller has the answer of this revision: its ETag is the one sent."}
    is_open = operation.tag == "health" and operation.scope is None
    failures = {**({} if is_open else _PROBLEMS), **operation.failures}
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses |= {status: {"description": text, "content": problem} for status, text in failures.items()}
    return {
        "methods": [operation.method],
        "tags": [operation.tag],
        "operation_id": operation.name,
        "response_model": None,
        "responses": responses,
        "openapi_extra": operation.scope and {"security": [{scheme: []} for scheme in _WHO_CALLS]},
    }


def _good(operation: Operation) -> dict[str, Any]:
    kind = _answer_kind(operation)
    if kind is str:
        types = {each: "object" if each == "application/json" else "string" for each in operation.media_types}
        return {"description": "A file.", "content": {each: {"schema": {"type": types[each]}} for each in types}}
    [media_type] = operation.media_types
    if kind is dict or get_origin(kind) is dict:
        return {"description": "In a format of others.", "content": {media_type: {"schema": {"type": "object"}}}}
    return {"model": answer_model(kind), "description": "The answer.", "content": {media_type: {}}}


def _answer_kind(operation: Operation) -> type:
    """A list needs no class: its request says under which name the items stand, and whether it comes in parts."""
    if not isinstance(operation.answer, str):
        return operation.answer
    kind: type | None = getattr(answers, operation.answer, None)
    if kind:
        return kind
    [request] = (each for each in Request.request_kinds() if each.operation is operation)
    bases = (answers.Part,) if issubclass(request, PartRequest) else ()
    items = GenericAlias(tuple, (request.noun, ...))
    return type(operation.answer, bases, {"__annotations__": {vars(request)["listing"]: items}})


def complete(document: dict[str, Any]) -> None:
    """Brings in what FastAPI does not know, or loses: how callers show who they are, the shape of problems, examples,
    and that answers are of no other kinds than are said.
    """
    components = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["schemas"]["Problem"] = answer_model(Problem).model_json_schema()
    components["securitySchemes"] = _WHO_CALLS
    for description in (each for methods in document["paths"].values() for each in methods.values()):
        operation = OPERATIONS[description["operationId"]]
        content = description["responses"]["200"]["content"]
        for media_type in set(content) - set(operation.media_types):
            del content[media_type]
        for response in description["responses"].values():
            if MEDIA_TYPE in response.get("content", ()):
                response["content"][MEDIA_TYPE]["example"] = examples()["problem"]
        example = examples().get(operation.name, {})
        if "answer" in example:
            next(iter(content.values()))["example"] = example["answer"]
        if "request" in example:
            description["requestBody"]["content"]["application/json"]["example"] = example["request"]


_OURS = answers.__name__


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


@cache
def answer_model(kind: type) -> type[BaseModel]:
    """The model of a noun, or of a class of `answer_shapes`: its fields as JSON has them, each with its text."""
    kind = _SHAPES.get(kind, kind)
    hints, texts = get_type_hints(kind, include_extras=True), field_texts(kind)
    fields: dict[str, Any] = {}
    for name, base in field_owners(kind).items():
        kind_of = json_type(hints[name])
        fields[name] = (kind_of, Field(_default(base, name, kind_of), description=texts.get(name)))
    description = kind.__doc__ if kind.__module__ == _OURS or kind is Problem else None
    return create_model(kind.__name__.removesuffix("Json"), __base__=Answer, __doc__=description, **fields)


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


def json_type(hint: Any) -> Any:
    """The type of JSON that `shapes` writes for a value of this type, with its limits: a sequence is a list."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, *notes = arguments
        forms = [note.json for note in notes if isinstance(note, JsonForm)]
        return json_type(forms[0]) if forms else Annotated[(json_type(kind), *notes)]
    if origin in (tuple, Sequence):
        return list[json_type(arguments[0])]  # type: ignore[misc] # made as the program runs
    if origin is Mapping:
        return dict.__class_getitem__(arguments)
    if origin in (Union, UnionType):
        return reduce(or_, map(json_type, arguments))
    is_noun = is_dataclass(hint) or is_typeddict(hint) or hint is Vote or getattr(hint, "__module__", "") == _OURS
    return answer_model(hint) if is_noun else hint
