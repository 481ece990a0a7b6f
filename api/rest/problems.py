"""Answers as JSON in the core's own shapes; every error as a problem (RFC 9457)."""

import asyncio
import json
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic_core import PydanticSerializationError, to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match

from waygraph.api.telemetry.logs import request_id
from waygraph.api.telemetry.request_log import Application, Message, Receive, Scope, Send
from waygraph.registry.http.problems import MEDIA_TYPE, Problem, problem, public_problem
from waygraph.registry.model import errors as e
from waygraph.registry.model.validation import reason_of


def as_json(
    shape: object, headers: dict[str, str] | None = None, *, media_type: str = "application/json", status: int = 200
) -> Response:
    return Response(encode_json(shape), status, media_type=media_type, headers=headers)


def encode_json(shape: object) -> bytes:
    """As JSON, in UTF-8."""
    try:
        return to_json(shape)  # a quarter of the time of `json`, which on a page of a list is much of all
    except PydanticSerializationError:  # half of a surrogate pair, which becomes a question mark, or a deep schema
        return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


logger = logging.getLogger("waygraph.rest")

STATUSES: tuple[tuple[int, tuple[type[e.WaygraphError], ...]], ...] = (
    (401, (e.NotAuthenticated,)),
    (422, (e.UnknownRecipe, e.InvalidQuery, e.InvalidSetting, e.SourceError, e.InvalidArguments)),
    (404, (e.UnknownName, e.RegistryNotFound)),
    (409, (e.RecipeNeedsTexts, e.WriteConflict, e.EmbedderMismatch, e.MassRemoval, e.TextDiffers, e.AmbiguousTool)),
    (507, (e.StorageFailed,)),
    (503, (e.ModelNotFound, e.CypherBusy, e.LoginsUnusable)),
    (422, (e.CypherError,)),
    (504, (e.CallTimedOut,)),
    (502, (e.UpstreamError,)),
    (429, (e.TooManyRequests, e.BudgetSpent)),
    (403, (e.NotRun, e.NotAllowed)),
)
"""The first that fits counts; of others what may pass is 503, and the rest 500."""
RETRY_AFTER_S = 1
_OWN = {500, 507}
_OWN_FAULT = "the service met a fault of its own; its log knows more under this id"
_IN_OUR_WORDS = {
    # FastAPI's of all else that stands against reading it: its encoding, or numbers of 5,000 digits.
    "There was an error parsing the body": "the body cannot be read as JSON in UTF-8",
    "Not Found": "there is nothing at this path; /docs and /openapi.json say what there is",
}
"""By the words of the libraries."""
_FAULTS = 50
"""So many of a request are looked at: a body may hold a million fields that are not known."""
_CODES = {400: "bad-request", 404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "media-type"}


def status_of(error: e.WaygraphError) -> int:
    otherwise = 503 if error.retryable else 500
    return next((status for status, kinds in STATUSES if isinstance(error, kinds)), otherwise)


def register(app: FastAPI) -> None:
    app.add_exception_handler(e.WaygraphError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_starlette)
    app.add_exception_handler(TimeoutError, _too_late)
    app.add_exception_handler(Exception, _unforeseen)


def problem_of(error: e.WaygraphError) -> Problem:
    """What a caller may know: of a fault on the service's side no more than its kind."""
    details = public_problem(error, status_of(error), _instance())
    is_told = details["status"] not in _OWN or isinstance(error, e.NotPublished)
    return details if is_told else {**details, "detail": _OWN_FAULT, "facts": {}}


def answer(details: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return as_json(details, dict(headers or {}), media_type=MEDIA_TYPE, status=details["status"])


def too_large(limit_bytes: int) -> Problem:
    return problem(413, "too-large", f"the request has more than the {limit_bytes:,} bytes that are read", _instance())


def too_slow(limit_s: float) -> Problem:
    return problem(408, "too-slow", f"the request was not sent within {limit_s:g} s", _instance(), retryable=True)


def not_ready(error: e.WaygraphError) -> Problem:
    reason = public_problem(error, 503, _instance())["detail"]
    return problem(503, "not-ready", reason, _instance(), retryable=True)


def wrong_host(host: str) -> Problem:
    detail = f"this service is not {host[:200]!r}; without authentication it answers to names of this machine alone"
    return problem(421, "wrong-host", detail, _instance())


def wrong_origin(origin: str) -> Problem:
    detail = f"web pages of {origin[:200]!r} may not call this service; WAYGRAPH_CORS_ORIGINS says whose may"
    return problem(403, "wrong-origin", detail, _instance())


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, e.WaygraphError)  # noqa: S101 - registered for these
    return refusal(error)


def refusal(error: e.WaygraphError, headers: Mapping[str, str] | None = None) -> Response:
    details = problem_of(error)
    if details["status"] >= 500:
        logger.error("%s: %s", details["code"], error)
    return answer(details, {**_headers(error, details["status"]), **(headers or {})})


def stop_response() -> Response:
    """To a request that was cut off."""
    reason = "the service is stopping; whether this was done is not known"
    details = problem(503, "stopping", reason, _instance(), retryable=True)
    return answer(details, {"Retry-After": str(RETRY_AFTER_S), "Connection": "close"})


def _headers(error: e.WaygraphError, status: int) -> dict[str, str]:
    if isinstance(error, e.TooManyRequests):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    if isinstance(error, e.NotAuthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    if any(fault["loc"] == ("body",) for fault in error.errors()) and not _says_json(request):
        detail = "a body is read as JSON, and must say so: `Content-Type: application/json`"
        return answer(problem(415, "media-type", detail, _instance()))
    if unread := [fault["ctx"]["error"] for fault in error.errors() if fault["type"] == "json_invalid"]:
        return answer(problem(400, "bad-request", f"the body is no JSON: {unread[0]}", _instance()))
    faults = faults_of(error.errors()[:_FAULTS])
    summary = "; ".join(f"{fault['at']}: {fault['reason']}" for fault in faults[:5])
    return answer(problem(422, "invalid-request", summary[:2000], _instance(), facts={"faults": faults}))


async def _of_starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    code = _CODES.get(error.status_code, "refused")
    headers = _allow_header(request) if error.status_code == 405 else error.headers
    detail = _IN_OUR_WORDS.get(str(error.detail), str(error.detail))
    return answer(problem(error.status_code, code, detail, _instance()), headers)


def _says_json(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type.startswith("application/") and media_type.endswith(("/json", "+json"))


def _allow_header(request: Request) -> dict[str, str]:
    """The methods of all routes of this path: starlette tells those of the first."""
    routes = request.app.state.routes
    methods = {method for route in routes if route.matches(request.scope)[0] != Match.NONE for method in route.methods}
    return {"Allow": ", ".join(sorted(methods))}


async def _too_late(request: Request, _: Exception) -> Response:
    limit_s = request.app.state.service.settings.request_timeout_s
    detail = f"no answer was ready within {limit_s:g} s"
    late = problem(503, "too-late", detail, _instance(), retryable=True)
    return answer(late, {"Retry-After": str(RETRY_AFTER_S)})


async def _unforeseen(_: Request, __: Exception) -> Response:
    """What happened is in the log, under the same id; it is not for the caller."""
    return answer(problem(500, "internal-error", _OWN_FAULT, _instance()))


def _instance() -> str:
    return f"urn:waygraph:request:{request_id()}"


class Stoppable:
    """The application. A request that the server cancels because it stops gets an error that says so.

    If the answer has begun, the connection ends in the middle of it.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def note_message(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._application(scope, receive, note_message)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if has_begun or scope["type"] != "http" or task is None:
                raise
            task.uncancel()
            await stop_response()(scope, receive, send)


def faults_of(errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """`at`, the place with dots between its parts, and `reason`, of each error that pydantic tells of a request."""
    return [{"at": ".".join(map(str, fault["loc"])), "reason": reason_of(fault)} for fault in errors]
