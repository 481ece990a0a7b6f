"""Questions in plain JSON that can be answered reach their endpoint at once.

FastAPI's way there takes as long as all else that a service does around a route. What is not plain goes that way,
mistakes included, so that one place tells of them.
"""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Match

from waygraph.api.rest.dependencies import caller_for_route, service_of
from waygraph.api.rest.middleware import replayed

if TYPE_CHECKING:
    from fastapi.responses import Response

    from waygraph.api.rest.requests import Strict
    from waygraph.api.telemetry.request_log import Receive, Scope, Send

_PLAIN = frozenset({"application/json", "application/json; charset=utf-8"})
_PASSED_ON = "waygraph.passed_on"
"""In the scope of a request that goes FastAPI's way."""


class Direct(BaseRoute):
    """POST of one path, of an endpoint that takes a body, the service and who may route. It stands before the same
    endpoint's route of FastAPI, which documents it.
    """

    def __init__(self, path: str, body: "type[Strict]", endpoint: "Callable[..., Awaitable[Response]]") -> None:
        self._path, self._body, self._endpoint = path, body, endpoint

    def matches(self, scope: "Scope") -> "tuple[Match, Scope]":
        is_asked = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == self._path
        return (Match.FULL, {"endpoint": self._endpoint}) if is_asked and _PASSED_ON not in scope else (Match.NONE, {})

    async def handle(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        request = Request(scope, receive)
        body = await request.body()
        asked = self._read(body) if request.headers.get("content-type") in _PLAIN else None
        if asked is None:
            scope[_PASSED_ON] = True
            await scope["router"].app(scope, replayed(body, receive), send)
            return
        caller = await caller_for_route(request)
        response = await self._endpoint(asked, await service_of(request), caller)
        await response(scope, receive, send)

    def _read(self, body: bytes) -> Any:
        """As FastAPI reads it; None if that would refuse it."""
        try:
            return self._body.model_validate(json.loads(body))
        except (ValueError, RecursionError):
            return None
