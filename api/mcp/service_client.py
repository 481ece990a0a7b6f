"""How the bridge speaks to a running service: whatever goes wrong on the way becomes a JSON-RPC error that says why.

The SDK's transport hands such an error to whoever asked, and all that is asked beside it goes on; an exception would
end the transport.
"""

import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import anyio
import httpx2

from waygraph.api.mcp.results import protocol_error
from waygraph.ingest.upstream.error_body import error_code, start_of
from waygraph.ingest.upstream.json_rpc import KINDS, answer_to, error_to, kind_of, message_in
from waygraph.registry.errors import ServiceFailed, ServiceUnavailable, WaygraphError
from waygraph.registry.remote.address import ServiceAddress
from waygraph.registry.remote.answers import Broken, answer_of, stranger
from waygraph.registry.remote.call import Call, Reply
from waygraph.registry.remote.connection import client_options, patience
from waygraph.registry.remote.limits import Limits
from waygraph.registry.settings import Settings
from waygraph.registry.wire.problems import code_of

API_KEY = "WAYGRAPH_API_KEY"
NOTICE_TIMEOUT_S = 10.0
"""For the answer to what asks nothing: the SDK sends nothing else before it comes."""
LEAVE_TIMEOUT_S = 1.0
"""For the service to hear that a session is over."""
_SESSION = "mcp-session-id"
_NO_ANSWER = 502
"""Bad Gateway, in place of an answer that did not come."""
_MESSAGE: Call[None] = Call(method="POST", path="/mcp", read=lambda _: None, safe=False)
"""What every message is to the rules of repeats: it may have been done once it was sent."""


class ServiceClient(httpx2.AsyncClient):
    """Of one service. It never raises for what the service or the network does."""

    def __init__(self, address: ServiceAddress, settings: Settings) -> None:
        # Streams for what the service tells by itself stay open: no number of sockets is enough for all hosts.
        sockets = httpx2.Limits(max_connections=None, max_keepalive_connections=settings.remote_pool_size)
        options = client_options(address, settings) | {"limits": sockets}
        timeout = httpx2.Timeout(None, connect=settings.remote_connect_timeout_s)  # who asks has a deadline
        super().__init__(**options, timeout=timeout)
        self.without_session = set[str | int]()
        """Ids of requests that the service did not take since their session is over."""
        self._place = address.url
        self._most_bytes = settings.remote_max_answer_bytes
        self._limits = Limits(address.url, settings, time.monotonic)
        self._patience = patience(settings, time.monotonic, random.random)

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        asks = _asked(request)
        if request.method == "POST" and asks is None:
            request.extensions["timeout"] = {**self.timeout.as_dict(), "read": NOTICE_TIMEOUT_S}
        if request.method == "DELETE":
            with anyio.move_on_after(LEAVE_TIMEOUT_S):
                return await self._answered(request, **how)
            return error_to(request, _NO_ANSWER, protocol_error(ServiceUnavailable(self._place, "no answer in time")))
        attempts = self._patience.attempts(_MESSAGE)
        while True:
            try:
                response = await self._answered(request, **how)
            except _Unanswered as unanswered:
                pause_s = attempts.wait_s(unanswered.broken) if asks is not None else None
                if pause_s is None:
                    return self._no_answer(request, unanswered.broken)
                await anyio.sleep(pause_s)
            else:
                return await self._taken(request, response, asks)

    async def _answered(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Raises _Unanswered."""
        try:
            response = await super().send(request, **how)
        except httpx2.HTTPError as exc:
            raise _Unanswered(self._limits.broken(_MESSAGE, exc)) from exc
        except (httpx2.InvalidURL, ValueError, TypeError) as exc:  # a header that cannot be sent
            error = ServiceFailed(self._place, f"the message cannot be sent ({type(exc).__name__})")
            raise _Unanswered(Broken(error, sent=False, passing=False)) from exc
        if response.status_code < 400 and isinstance(response.stream, httpx2.AsyncByteStream):
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            # One event is bounded by the SDK; a stream has no end.
            response.stream = _Body(response.stream, None if is_stream else self._most_bytes)
        return response

    async def _taken(
        self, request: httpx2.Request, response: httpx2.Response, asks: str | int | None
    ) -> httpx2.Response:
        """The answer, if it is one; what answers otherwise than any service of MCP is none of ours."""
        if response.status_code >= 400:
            return await self._refusal(request, response, asks)
        is_answer = response.status_code == HTTPStatus.OK and kind_of(response) in KINDS
        if asks is None or is_answer or response.has_redirect_location:
            return response
        with suppress(httpx2.HTTPError):
            await response.aclose()
        return error_to(request, _NO_ANSWER, protocol_error(stranger(response.status_code, self._place)))

    async def _refusal(
        self, request: httpx2.Request, response: httpx2.Response, asks: str | int | None
    ) -> httpx2.Response:
        """The service's own JSON-RPC error as it is; any other answer as the error that it means."""
        body = await start_of(response)
        if response.status_code == 404 and _SESSION in request.headers and asks is not None:
            self.without_session.add(asks)
        if error_code(body) is not None:
            return answer_to(request, response.status_code, body)
        headers = {name.lower(): value for name, value in response.headers.items()}
        try:
            answer_of(_MESSAGE, Reply(response.status_code, headers, body), self._place)
        except WaygraphError as error:
            return error_to(request, response.status_code, _with_advice(protocol_error(error), response.status_code))
        raise AssertionError("an answer of 400 and above is an error")

    def _no_answer(self, request: httpx2.Request, broken: Broken) -> httpx2.Response:
        went = broken.sent and broken.passing
        return error_to(request, _NO_ANSWER, went_away(self._place) if went else protocol_error(broken.error))


def _with_advice(error: dict[str, Any], status: int) -> dict[str, Any]:
    """Who reads it has a host's config in their hands, no HTTP request."""
    advice = f"; set {API_KEY} in the environment in which the host starts this command" if status == 401 else ""
    return error | {"message": error["message"] + advice}


def went_away(place: str) -> dict[str, Any]:
    """The error for what was sent, and never answered: asked again it might be done twice."""
    error = ServiceUnavailable(place, "it went away before it answered; whether it did what was asked is not known")
    return protocol_error(error) | {"data": {"code": code_of(type(error)), "retryable": False}}


class _Unanswered(Exception):
    def __init__(self, broken: Broken) -> None:
        self.broken = broken
        super().__init__(broken.error)


class _Body(httpx2.AsyncByteStream):
    """A body that ends with an error which the SDK expects there when it breaks or is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, most_bytes: int | None) -> None:
        self._inner, self._most_bytes = inner, most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for chunk in self._inner:
                read += len(chunk)
                if self._most_bytes is not None and read > self._most_bytes:
                    raise httpx2.StreamError(f"more than {self._most_bytes:,} bytes (WAYGRAPH_REMOTE_MAX_ANSWER_BYTES)")
                yield chunk
        except httpx2.TransportError as exc:
            raise httpx2.StreamError("the connection broke") from exc

    async def aclose(self) -> None:
        await self._inner.aclose()


def _asked(request: httpx2.Request) -> str | int | None:
    """The id of a request that waits for an answer; None for all else."""
    message = message_in(request)
    found = message.get("id") if "method" in message else None
    return found if isinstance(found, (str, int)) else None
