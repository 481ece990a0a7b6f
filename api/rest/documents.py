"""What the OpenAPI document says of each operation: its name, its answers, its problems, an example of each."""

from typing import Any

from pydantic import BaseModel

from waygraph.api.rest import responses as r
from waygraph.api.rest.examples import ANSWERS, PROBLEM, REQUESTS
from waygraph.registry.wire.problems import MEDIA_TYPE

_SHAPES: dict[str, type[BaseModel]] = {
    "route": r.Route,
    "route_batch": r.Batch,
    "search_tools": r.ToolRoute,
    "recipes": r.Recipes,
    "agents": r.Agents,
    "agent": r.About,
    "agent_tools": r.Tools,
    "tools": r.Tools,
    "tool": r.DefinedTool,
    "tool_called": r.DefinedTool,
    "sources": r.Sources,
    "changes": r.Changes,
    "status": r.Status,
    "manifests": r.Reports,
    "approve": r.Approved,
    "set_agent": r.Settings,
    "remove_agent": r.Settings,
    "forget_source": r.Forgotten,
    "cypher": r.Rows,
    "healthz": r.Alive,
    "readyz": r.Ready,
}
_FILES = {
    "export": ("application/json", "application/graphml+xml", "text/html"),
    "metrics": ("text/plain",),
}
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
_CONDITIONAL = {
    "agents",
    "agent",
    "agent_tools",
    "tools",
    "tool",
    "tool_called",
    "sources",
    "changes",
    "status",
    "ai_catalog",
}
_OPEN = {"healthz", "readyz"}
_WHO_CALLS: dict[str, dict[str, str]] = {
    "HTTPBearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a token of the issuer that the service trusts.",
    },
    "APIKeyHeader": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
}
"""How a request shows it: one of these."""
_SHOWN_OR_NOT = {"ai_catalog"}


def operation(name: str) -> dict[str, Any]:
    """What a route's decorator takes."""
    responses: dict[int | str, dict[str, Any]] = {200: _good(name)}
    if name in _CONDITIONAL:
        responses[304] = {"description": "The caller has the answer of this revision: its ETag is the one sent."}
    if name not in _OPEN:
        responses |= {status: _problem(text) for status, text in _PROBLEMS.items()}
    elif name == "readyz":
        responses[503] = _problem("It is not ready.")
    extra: dict[str, Any] = {}
    if name in REQUESTS:
        extra["requestBody"] = {"content": {"application/json": {"example": REQUESTS[name]}}}
    if name not in _OPEN | _SHOWN_OR_NOT:
        extra["security"] = [{scheme: []} for scheme in _WHO_CALLS]
    return {"operation_id": name, "response_model": None, "responses": responses, "openapi_extra": extra or None}


def _good(name: str) -> dict[str, Any]:
    if name in _FILES:
        schemas = {kind: {"type": "object" if kind == "application/json" else "string"} for kind in _FILES[name]}
        return {"description": "A file.", "content": {kind: {"schema": schemas[kind]} for kind in schemas}}
    if name == "ai_catalog":
        schema = r.AiCatalog.model_json_schema()
        return {
            "description": "The catalogue.",
            "content": {"application/ai-catalog+json": {"schema": schema, "example": ANSWERS[name]}},
        }
    return {
        "model": _SHAPES[name],
        "description": "The answer.",
        "content": {"application/json": {"example": ANSWERS[name]}},
    }


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema, "example": PROBLEM}}}


def complete(document: dict[str, Any]) -> None:
    """Brings in what FastAPI does not know, or loses: how callers show who they are, what is null in examples, and that
    answers are of no other kinds than are said.
    """
    document["components"]["securitySchemes"] = _WHO_CALLS
    for methods in document["paths"].values():
        for told in methods.values():
            name = told["operationId"]
            content = told["responses"]["200"]["content"]
            for kind in set(content) - _kinds(name):
                del content[kind]
            if name in ANSWERS:
                next(iter(content.values()))["example"] = ANSWERS[name]
            if name in REQUESTS:
                told["requestBody"]["content"]["application/json"]["example"] = REQUESTS[name]


def _kinds(name: str) -> set[str]:
    return set(_FILES.get(name) or ("application/ai-catalog+json" if name == "ai_catalog" else "application/json",))
