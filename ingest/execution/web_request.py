"""One request to a service, as careful as a request to somebody else's server has to be, and its whole answer.

It goes to the origin that was configured: a redirect elsewhere is not followed. Unless an operator allows it, a host
with an address of this machine or network is not connected to, whatever name leads there. Answers are bounded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy

import httpx2

from waygraph.ingest.execution.openapi_request import Part
from waygraph.ingest.upstream.connection import MayHaveRun
from waygraph.registry.http.client import (
    IDENTITY,
    NotPublic,
    PublicOnly,
    UnusableProxy,
    coding_of,
    connection_fault,
    http_client,
    same_origin,
    trust,
)
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.settings import Settings

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that may be asked again, whatever became of the first time."""
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL)
_KEEPING = frozenset({307, 308})
"""Redirects that keep method and body (RFC 9110, 15.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`url` may hold a key in its query."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`reason` is the status in words, ours. `media` has no parameters; `whole`: False if the rest was left out."""

    status: int
    reason: str
    media: str
    charset: str
    content: bytes = field(repr=False)
    whole: bool = True


class Web:
    """Sends requests, of all services over two clients, until it is closed. It keeps no cookies."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._most_bytes = settings, settings.call_max_answer_bytes
        self._clients: dict[bool, httpx2.AsyncClient] = {}

    async def ask(self, request: Request) -> Response:
        """Raises UpstreamError, whose text holds neither header nor query."""
        client = self._client(any_host=request.allow_private)
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send(client, request)
            if isinstance(answer, Response):
                return answer
            request = answer
        raise UpstreamRefused(f"redirects more than {MAX_REDIRECTS} times")

    def _client(self, *, any_host: bool) -> httpx2.AsyncClient:
        """Made by the first request that needs it: a gateway that starts would wait for it, and most need none."""
        if any_host not in self._clients:
            # Given a transport, a client takes no proxy from the environment: that would resolve names by itself.
            transport = None if any_host else PublicOnly(verify=trust())
            try:
                self._clients[any_host] = _new_client(self._settings, transport)
            except UnusableProxy as unusable:
                raise UpstreamRefused(str(unusable)) from None
        return self._clients[any_host]

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def _send(self, client: httpx2.AsyncClient, request: Request) -> Response | Request:
        try:
            async with client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.content or None,
                files=list(request.parts) or None,
            ) as response:
                following = _redirect(request, response)
                return following or await self._answer(response)
        except UpstreamError as error:
            raise _plain_error(error) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as exc:
            lost = _transport_error(exc)
            may_have_run = request.method not in _READING and not isinstance(exc, _UNSENT)
            raise (MayHaveRun(lost.reason) if lost.retryable and may_have_run else lost) from None

    async def _answer(self, response: httpx2.Response) -> Response:
        if coding_of(response) != IDENTITY:
            raise UpstreamRefused("answered in a compressed form that it was not asked for")
        content, whole = bytearray(), True
        async for part in response.aiter_raw():
            content += part
            if len(content) > self._most_bytes:
                whole = False
                break
        kind = response.headers.get("content-type", "")
        return Response(
            status=response.status_code,
            reason=_phrase(response.status_code),
            media=kind.partition(";")[0].strip().lower(),
            charset=response.charset_encoding or "utf-8",
            content=bytes(content[: self._most_bytes]),
            whole=whole,
        )


def _new_client(settings: Settings, transport: PublicOnly | None) -> httpx2.AsyncClient:
    client = http_client(
        httpx2.AsyncClient,
        verify=trust(),
        transport=transport,
        timeout=httpx2.Timeout(settings.upstream_connect_timeout_s, read=None, write=None),  # a call has a deadline
        follow_redirects=False,
        headers={"accept-encoding": "identity", "user-agent": "waygraph"},
    )
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def _redirect(request: Request, response: httpx2.Response) -> Request | None:
    """The request to make instead, on the same origin. Raises UpstreamRefused."""
    if response.status_code not in _REDIRECTS or "location" not in response.headers:
        return None
    own = httpx2.URL(request.url)
    target = own.join(response.headers["location"])
    if not same_origin(own, target):
        raise UpstreamRefused("redirects to another host, which is not followed")
    if response.status_code in _KEEPING or request.method in ("GET", "HEAD"):
        return replace(request, url=str(target))
    headers = {name: value for name, value in request.headers.items() if name.lower() != "content-type"}
    return replace(request, method="GET", url=str(target), headers=headers, content=b"", parts=())


def _phrase(status: int) -> str:
    from http import HTTPStatus

    known = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    return f"HTTP {status} {known}".rstrip()


def _plain_error(error: UpstreamError) -> UpstreamError:
    if isinstance(error, NotPublic):
        return UpstreamRefused(
            f"{error.reason}. If that is meant, say `allow_private = true` for it in the services file"
        )
    return error


def _transport_error(exc: Exception) -> UpstreamError:
    if fault := connection_fault(exc):
        return UpstreamUnreachable(fault)
    return UpstreamRefused(f"the request could not be sent ({type(exc).__name__})")
