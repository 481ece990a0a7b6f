"""What the OpenAPI document says of each operation, beside its paths and parameters."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from waygraph.api.rest.responses import FOREIGN, answer_model
from waygraph.registry.http.problems import MEDIA_TYPE
from waygraph.registry.remote.answers import Problem
from waygraph.registry.remote.operations import OPERATIONS, Operation

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
    document: dict[str, Any] = yaml.safe_load(files("waygraph.api.rest").joinpath("examples.yaml").read_text("utf-8"))
    return document


def describe(operation: Operation[Any]) -> dict[str, Any]:
    """What FastAPI takes of an operation, beside its path."""
    responses: dict[int | str, dict[str, Any]] = {200: _good(operation)}
    if operation.is_conditional:
        responses[304] = {"description": "The caller has the answer of this revision: its ETag is the one sent."}
    is_open = operation.tag == "health" and operation.scope is None
    failures = {**({} if is_open else _PROBLEMS), **operation.failures}
    responses |= {status: _problem(text) for status, text in failures.items()}
    extra: dict[str, Any] = {}
    if "request" in examples().get(operation.name, ()):
        extra["requestBody"] = {"content": {"application/json": {}}}
    if operation.scope is not None:
        extra["security"] = [{scheme: []} for scheme in _WHO_CALLS]
    return {
        "methods": [operation.method],
        "tags": [operation.tag],
        "operation_id": operation.name,
        "response_model": None,
        "responses": responses,
        "openapi_extra": extra or None,
    }


def _good(operation: Operation[Any]) -> dict[str, Any]:
    kind: type = operation.answer
    if kind is str:
        types = {each: "object" if each == "application/json" else "string" for each in operation.media_types}
        return {"description": "A file.", "content": {each: {"schema": {"type": types[each]}} for each in types}}
    model = FOREIGN.get(operation.name) or answer_model(kind)
    [media_type] = operation.media_types
    if media_type == "application/json":
        return {"model": model, "description": "The answer.", "content": {media_type: {}}}
    return {"description": "The catalogue.", "content": {media_type: {"schema": model.model_json_schema()}}}


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema, "example": examples()["problem"]}}}


def complete(document: dict[str, Any]) -> None:
    """Brings in what FastAPI does not know, or loses: how callers show who they are, the shape of problems, examples
    with what is null in them, and that answers are of no other kinds than are said.
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
        example = examples().get(operation.name, {})
        if "answer" in example:
            next(iter(content.values()))["example"] = example["answer"]
        if "request" in example:
            description["requestBody"]["content"]["application/json"]["example"] = example["request"]
