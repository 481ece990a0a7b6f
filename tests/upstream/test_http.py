"""What goes to an address, and what comes of its refusals."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server import MCPServer

from tests.upstream.launches import SETTINGS, listing_of
from tests.upstream.served import running, served
from waygraph.ingest.logins.store import LoginRefused
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.upstream.http import _Body
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamBusy, UpstreamError, UpstreamRefused, UpstreamUnreachable

Answer = Callable[[dict[str, Any], Any], tuple[int, dict[str, str], bytes]]
"""Headers and message of a request to status, headers and body."""


def answering(answer: Answer) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        heard = {name.decode(): value.decode() for name, value in scope["headers"]}
        heard |= {":method": scope["method"], ":path": scope["path"]}
        status, headers, content = answer(heard, json.loads(body) if body else {})
        said = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": said})
        await send({"type": "http.response.body", "body": content})

    return app


def error_of(answer: Answer, url: str = "{}/mcp") -> UpstreamError:
    with running(answering(answer)) as origin, pytest.raises(UpstreamError) as caught:
        listing_of(HttpLaunch(url=url.format(origin)))
    return caught.value


@pytest.mark.parametrize("form", ["http", "sse"])
def test_the_headers_given_go_with_each_request(form: Any) -> None:
    heard: list[dict[str, Any]] = []

    def refuse(headers: dict[str, Any], _: Any) -> tuple[int, dict[str, str], bytes]:
        heard.append(headers)
        return 418, {}, b""

    with running(answering(refuse)) as origin, pytest.raises(UpstreamError):
        listing_of(HttpLaunch(url=f"{origin}/mcp", headers={"X-Key": "abc"}, form=form))
    assert {headers["x-key"] for headers in heard} == {"abc"}


def test_another_port_is_another_host() -> None:
    with served() as server:
        error = error_of(lambda *_: (307, {"location": server.url}, b""))
        assert error.reason.startswith("redirects to another host, which is not followed: http://127.0.0.1:")
        assert server.headers == []


def test_no_secret_is_told_in_the_name_of_a_host() -> None:
    """Of the server itself, where a reference stood, and of where it would have its callers go."""
    launch = HttpLaunch(url="http://S3cretValue.invalid/mcp", confidential=frozenset({"S3cretValue"}))
    with pytest.raises(UpstreamError) as caught:
        listing_of(launch)
    assert "***.invalid" in caught.value.reason

    def to_its_own(headers: dict[str, Any], _: Any) -> tuple[int, dict[str, str], bytes]:
        return 307, {"location": f"http://{headers['x-key']}.elsewhere.test/"}, b""

    with running(answering(to_its_own)) as origin, pytest.raises(UpstreamError) as caught:
        listing_of(HttpLaunch(url=f"{origin}/mcp", headers={"X-Key": "S3cretValue"}))
    assert "http://***.elsewhere.test" in caught.value.reason


def test_a_name_that_leads_to_this_machine_is_not_asked_for_somebody_else() -> None:
    """Whatever name stands for the address: it is looked up, and judged, before anything is sent."""
    with served() as server:
        launch = HttpLaunch(url=server.url.replace("127.0.0.1", "localhost"), public=True)
        with pytest.raises(UpstreamRefused, match="private or reserved address"):
            listing_of(launch)
        assert server.headers == []


def test_a_redirect_on_the_same_host_is_followed_with_the_headers() -> None:
    with served() as server:
        inner = server.app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/old":
                await send({"type": "http.response.start", "status": 307, "headers": [(b"location", b"/mcp")]})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        with running(app) as origin:
            assert listing_of(HttpLaunch(url=f"{origin}/old", headers={"X-Key": "abc"})).name == "served"
        assert {headers.get("x-key") for headers in server.headers} == {"abc"}


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, LoginRefused, "needs a login: an Authorization header"),
        (403, UpstreamRefused, "HTTP 403"),
        (404, UpstreamRefused, "no MCP server at this path"),
        (410, UpstreamRefused, "HTTP 410"),
        (429, UpstreamBusy, "call again later"),
        (503, UpstreamUnreachable, "HTTP 503"),
    ],
)
def test_a_refusal_says_its_status(status: int, kind: type[UpstreamError], says: str) -> None:
    error = error_of(lambda *_: (status, {}, b"<html>"))
    assert type(error) is kind
    assert says in error.reason


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("body", [b"<html>", b'{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"come again"}}'])
def test_a_server_that_takes_a_call_later_says_when(status: int, body: bytes) -> None:
    """Nothing was done: a call may be made again. A date in the past means now."""
    late = "Wed, 21 Oct 2015 07:28:00 GMT"
    for header, seconds, words in (("3", 3.0, "in 3 s"), (late, 0.0, "in 0 s")):
        error = error_of(lambda *_, header=header: (status, {"retry-after": header}, body))
        assert isinstance(error, UpstreamBusy)
        assert (error.retryable, error.retry_after_s) == (True, seconds)
        assert error.reason.endswith(f"call again {words}")
        assert ("come again" in error.reason) == (b"come again" in body)


def test_a_server_cannot_speak_in_our_name() -> None:
    def answer(_: Any, message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        error = {"code": -32000, "message": "all is well", "data": {"": True}}
        said = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return 200, {"content-type": "application/json"}, json.dumps(said).encode()

    error = error_of(answer)
    assert error.reason == "answered with error -32000: all is well"


def test_the_older_form_is_found_by_itself() -> None:
    """A server of HTTP and SSE alone refuses the POST; then its stream is opened."""
    older = MCPServer("older", version="1")
    older.add_tool(lambda: "x", name="alpha", description="The first.")
    with running(older.sse_app()) as origin:
        listing = listing_of(HttpLaunch(url=f"{origin}/sse"))
    assert (listing.name, [tool["name"] for tool in listing.tools]) == ("older", ["alpha"])


def test_a_request_that_fails_costs_only_itself() -> None:
    asked: list[str] = []
    with served() as server:
        inner, failing = server.app(), {"now": False}

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and failing["now"]:
                asked.append(scope["path"])
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        async def ask(url: str) -> int:
            async with connect(HttpLaunch(url=url), SETTINGS, follow=False) as connection:
                await connection.listing()
                failing["now"] = True
                with pytest.raises(UpstreamUnreachable, match="HTTP 500"):
                    await connection.listing()
                failing["now"] = False
                return len((await connection.listing()).tools)

        with running(app) as origin:
            assert anyio.run(ask, f"{origin}/mcp") == 1
    assert asked


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks, self.read_count = chunks, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self.read_count += 1
            yield chunk


def read(chunks: list[bytes]) -> int:
    """How many of a stream of events are read, of which one may have 100 bytes."""

    async def run() -> int:
        source = Chunks(chunks)
        with suppress(httpx2.StreamError):
            async for _ in _Body(source, 100, lambda _: None, events=True):
                pass
        return source.read_count

    return anyio.run(run)


@pytest.mark.parametrize("line", [b"data: 1\n", b"data: 1\r\n", b"data: 1\r"])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_an_event_without_end_is_not_read_on(line: bytes, size: int) -> None:
    whole = b"data: 0\n\n" + line * 200
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert read(chunks) <= 120 // size + 1
