"""A call of a tool: the request to its service, and the answer as a result (text, structure, images, files)."""

import codecs
import json
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Protocol

import httpx2

from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.manifest.redaction import shorten, strike_secrets, struck_json
from waygraph.ingest.upstream.connection import CALL, Deaf, Host, MayHaveRun, Result
from waygraph.ingest.upstream.messages import refusal_text
from waygraph.registry.http.addresses import Reach
from waygraph.registry.http.client import (
    Undecodable,
    UnusableProxy,
    connection_fault,
    decode_body,
    http_client,
    is_busy,
    same_origin,
    seconds_in,
    trust,
)
from waygraph.registry.http.guard import Guard, NotPublic
from waygraph.registry.model.errors import UpstreamBusy, UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import Settings

# One request to a service, as careful as a request to somebody else's server has to be, and its whole answer.


MAX_REDIRECTS = 5
BUSY_CHARS = 300
"""Of what a service says that wants to be asked later."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that may be asked again, whatever became of the first time."""
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL)
_KEEPING = frozenset({307, 308})
"""Redirects that keep method and body (RFC 9110, 15.4)."""


Part = tuple[str, tuple[str | None, bytes, str | None]]
"""Of a multipart body: name of a field; file name, content, media type."""


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
    retry_after: str | None = None

    def refuse_if_busy(self, secrets: tuple[str, ...]) -> None:
        """Raises UpstreamBusy, with what the service says, where it did nothing and wants to be asked later."""
        if is_busy(self.status, self.retry_after):
            words = shorten(strike_secrets(refusal_text(self.content), secrets), BUSY_CHARS)
            raise UpstreamBusy(": ".join(filter(None, (self.reason, words))), seconds_in(self.retry_after))


class Web:
    """Sends requests, of all services over two clients, until it is closed. It keeps no cookies."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._most_bytes = settings, settings.upstream_max_message_bytes
        self.most_error_chars = settings.most_error_chars
        self._clients: dict[bool, httpx2.AsyncClient] = {}

    async def ask(self, request: Request) -> Response:
        """Raises UpstreamError, whose text holds neither header nor query."""
        client = self._client(any_host=request.allow_private)
        for _ in range(MAX_REDIRECTS + 1):
            if isinstance(answer := await self._send(client, request), Response):
                return answer
            request = answer
        raise UpstreamRefused(f"redirects more than {MAX_REDIRECTS} times")

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        """To an address that the operator named, which may be a private one. Raises UpstreamError."""
        answer = await self.ask(Request(method="POST", url=url, headers=headers, content=content, allow_private=True))
        return answer.status, answer.content

    def _client(self, *, any_host: bool) -> httpx2.AsyncClient:
        """Made by the first request that needs it: a gateway that starts would wait for it, and most need none."""
        if any_host in self._clients:
            return self._clients[any_host]
        try:
            client = http_client(
                httpx2.AsyncClient,
                guard=Guard(beyond=Reach.MACHINE if any_host else Reach.INTERNET),
                verify=trust(),
                # Given a transport, a client takes no proxy from the environment: that would resolve names by itself.
                transport=None if any_host else httpx2.AsyncHTTPTransport(verify=trust()),
                # A call has a deadline.
                timeout=httpx2.Timeout(self._settings.upstream_connect_timeout_s, read=None, write=None),
                follow_redirects=False,
                headers={"accept-encoding": "identity", "user-agent": "waygraph"},
            )
        except UnusableProxy as unusable:
            raise UpstreamRefused(str(unusable)) from None
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._clients[any_host] = client
        return client

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
                return _redirect(request, response) or await self._answer(response)
        except NotPublic as error:
            if error.metadata:
                raise
            advice = "If that is meant, say `allow_private = true` for it in the services file"
            raise UpstreamRefused(f"{error.reason}. {advice}") from None
        except UpstreamError:
            raise
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as exc:
            if not (fault := connection_fault(exc)):
                raise UpstreamRefused(f"the request could not be sent ({type(exc).__name__})") from None
            if isinstance(exc, Undecodable):
                raise UpstreamRefused(fault) from None
            may_have_run = request.method not in _READING and not isinstance(exc, _UNSENT)
            raise (MayHaveRun if may_have_run else UpstreamUnreachable)(fault) from None

    async def _answer(self, response: httpx2.Response) -> Response:
        decode_body(response)
        content, whole = bytearray(), True
        async for part in response.aiter_raw():
            content += part
            if len(content) > self._most_bytes:
                whole = False
                break
        kind, status = response.headers.get("content-type", ""), response.status_code
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        return Response(
            status=status,
            reason=f"HTTP {status} {phrase}".rstrip(),
            media=kind.partition(";")[0].strip().lower(),
            charset=response.charset_encoding or "utf-8",
            content=bytes(content[: self._most_bytes]),
            whole=whole,
            retry_after=response.headers.get("retry-after"),
        )


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


STOPPING = "the gateway is being stopped"
"""Why calls end, and none begin, while it closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that may be made: policy and arguments are checked by whoever makes it.

    `deadline_s` is all its time. `caller` tells callers apart; empty: nobody is told apart. `token`: the bearer token
    that the caller showed. `method`: of MCP; of another one than CALL the arguments are all its parameters, and `tool`
    stands for what is asked for.
    """

    agent: Agent
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    caller: str = ""
    token: str = field(default="", repr=False, compare=False)
    host: Host = field(default_factory=Deaf, repr=False, compare=False)
    method: str = CALL

    @property
    def name(self) -> str:
        """Of the tool, as who called it knows it."""
        return self.tool.call_name or self.tool.id


class ToolCaller(Protocol):
    """Runs tools of some agents. One object serves all calls of a process; calls of different agents never wait for
    each other.
    """

    async def call(self, call: ToolCall) -> Result:
        """The tool's own result, an error that it tells included. Cancelled, it tells the server.

        Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol.
        """
        ...


MOST_ERROR_CHARS = 16_000
"""Of the body of an answer that is an error: as much as anyone would read."""
_TEXTS = ("text/", "application/xml", "application/yaml", "application/javascript", "application/x-www-form-urlencoded")
_OF_NAMES = frozenset({"idna", "punycode"})
"""Encodings of host names: Python's need minutes for a long text."""
_TEXT_ENDS = ("+xml", "+yaml", "ndjson", "jsonl")


def result_of(response: Response, name: str, secrets: tuple[str, ...], settings: Settings) -> Result:
    """`name`: of the tool, for the address of a file. `secrets`, longest first, stand nowhere in it.

    Raises UpstreamBusy.
    """
    response.refuse_if_busy(secrets)
    if response.status >= 400:
        body, _ = _redact_body(response, secrets) if _is_text(response) else ("", None)
        more = "…" if len(body) > MOST_ERROR_CHARS or not response.whole else ""
        return error(f"{response.reason}\n\n{body[:MOST_ERROR_CHARS]}{more}".rstrip())
    if not response.whole:
        most = f"{settings.upstream_max_message_bytes:,} bytes (WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)"
        return error(f"{response.reason}: the answer has more than {most}, and is left out")
    if not response.content:
        return {"content": [text(response.reason)]}
    if _is_text(response):
        body, document = _redact_body(response, secrets)
        content = {"content": [text(body)]}
        return {**content, "structuredContent": document} if isinstance(document, Mapping) else content
    blob = response.content
    for secret in secrets:  # of the same length, so that what a file says of its own parts stays true
        raw = secret.encode("utf-8", "surrogatepass")
        blob = blob.replace(raw, b"*" * len(raw))
    return {"content": [file_of(b64encode(blob).decode(), response.media, name)]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def error(reason: str) -> Result:
    return {"content": [text(reason)], "isError": True}


def file_of(blob: str, media: str, name: str) -> dict[str, Any]:
    """An image or a sound as such, anything else as a resource that is in the result itself. `blob`: in base64."""
    media = media or "application/octet-stream"
    if (kind := media.partition("/")[0]) in ("image", "audio"):
        return {"type": kind, "data": blob, "mimeType": media}
    return {"type": "resource", "resource": {"uri": f"waygraph:answer/{name}", "mimeType": media, "blob": blob}}


def _redact_body(response: Response, secrets: tuple[str, ...]) -> tuple[str, object]:
    """The text without secrets, and what it holds if it is JSON: as it came, or made anew if anything was struck."""
    raw_text = _decode_body(response)
    safe_text = strike_secrets(raw_text, secrets)
    document = None
    if _says_json(response):
        with suppress(ValueError, RecursionError):
            document = sendable(json.loads(raw_text))
    if document is None:
        return safe_text, None
    safe_document = struck_json(document, secrets)  # a parser takes more escapes than one looks for in a text
    is_same = safe_text == raw_text and safe_document == document
    return (raw_text if is_same else json.dumps(safe_document, ensure_ascii=False)), safe_document


def _is_text(response: Response) -> bool:
    if not (media := response.media):
        with suppress(UnicodeDecodeError):
            response.content.decode()
            return True
        return False
    return _says_json(response) or media.startswith(_TEXTS) or media.endswith(_TEXT_ENDS)


def _says_json(response: Response) -> bool:
    from waygraph.ingest.sources.formats.openapi_calls import is_json

    return is_json(response.media) or (not response.media and response.content.lstrip()[:1] in (b"{", b"["))


def _decode_body(response: Response) -> str:
    try:
        charset = codecs.lookup(response.charset).name
        return response.content.decode("utf-8" if charset in _OF_NAMES else charset, "replace").removeprefix("\ufeff")
    except (LookupError, UnicodeError):  # no encoding of texts, or one that takes no such content
        return response.content.decode("utf-8", "replace")
