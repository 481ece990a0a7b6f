"""Servers that answer in other ways than the protocol has it: read where that is safe, else refused with the reason.

Whoever waits for an answer that cannot be read learns it at once, and no later fault hides the first one.
"""

import gzip
import json
import queue
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.servers.misbehaving_http import Exchange, misbehaving_http
from tests.servers.wire import greeting, listing
from tests.upstream.calling import over
from tests.upstream.launches import SETTINGS, listing_of
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.registry.model.errors import UpstreamAnswered, UpstreamError, UpstreamRefused

Message = Mapping[str, Any]


def answer_of(message: Message) -> Any:
    """What a server answers that knows two tools."""
    results = {"initialize": greeting(), "tools/list": listing(), "tools/call": {"content": []}}
    if (result := results.get(str(message.get("method")))) is not None:
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "not known"}}


def encoded(message: Message) -> bytes:
    return json.dumps(answer_of(message)).encode()


def event(body: bytes) -> bytes:
    return b"event: message\ndata: " + body + b"\n\n"


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


def packing(coding: str, kind: str) -> Callable[[Exchange, Message], None]:
    def behave(exchange: Exchange, message: Message) -> None:
        if exchange.command != "POST" or "id" not in message:
            return exchange.send(202 if exchange.command == "POST" else 405)
        body = event(encoded(message)) if "event" in kind else encoded(message)
        for name in filter(None, coding.split(", ")):
            body = PACKERS[name](body)
        return exchange.send(200, body, kind, Content_Encoding=coding)

    return behave


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "deflate, gzip"])
def test_a_server_behind_an_edge_that_compresses_is_asked(coding: str, kind: str) -> None:
    with misbehaving_http(packing(coding, kind)) as endpoint:
        assert len(listing_of(HttpLaunch(url=endpoint.url)).tools) == 2


def test_a_coding_that_is_not_read_is_named() -> None:
    def behave(exchange: Exchange, _: Message) -> None:
        exchange.send(200, b"?", Content_Encoding="br")

    with misbehaving_http(behave) as endpoint, pytest.raises(UpstreamRefused, match=r"compressed by br; read are gzip"):
        listing_of(HttpLaunch(url=endpoint.url))


def test_a_refusal_that_is_compressed_says_its_reason() -> None:
    def behave(exchange: Exchange, _: Message) -> None:
        exchange.send(422, gzip.compress(b'{"detail": "no tenant was named"}'), Content_Encoding="gzip")

    with misbehaving_http(behave) as endpoint, pytest.raises(UpstreamRefused, match="HTTP 422: no tenant was named"):
        listing_of(HttpLaunch(url=endpoint.url))


@dataclass
class Older:
    """Answers by its stream; `post` says what it writes back to the request itself, before or after."""

    post: Callable[[Exchange, Message], None]
    answer: Callable[[Message], bytes] = encoded
    waiting: "queue.Queue[bytes]" = field(default_factory=queue.Queue)

    def __call__(self, exchange: Exchange, message: Message) -> None:
        if exchange.command == "POST":
            if "id" in message:
                self.waiting.put(self.answer(message))
            return self.post(exchange, message)
        exchange.begin("text/event-stream")
        exchange.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        exchange.wfile.flush()
        while not exchange.endpoint.ended.is_set():
            try:
                exchange.wfile.write(event(self.waiting.get(timeout=0.02)))
                exchange.wfile.flush()
            except queue.Empty:
                pass
        return None


@pytest.mark.parametrize(
    "post",
    [
        lambda exchange, _: exchange.send(202),
        lambda exchange, _: exchange.send(200),
        lambda exchange, _: exchange.send(201, b"taken", "text/plain"),
        lambda exchange, _: exchange.send(202, b'{"ok": true}'),
        lambda exchange, _: exchange.send(200, b"<p>thanks</p>", "text/html; charset=utf-8"),
        lambda exchange, _: exchange.send(200, b"{", "application/json"),
        lambda exchange, message: exchange.send(200, encoded(message) if "id" in message else b""),
        lambda exchange, _: exchange.send(200, gzip.compress(b"ok"), "text/plain", Content_Encoding="gzip"),
        lambda exchange, _: (exchange.send_response(204), exchange.end_headers()),
    ],
    ids=range(9),
)
def test_over_the_older_transport_a_request_is_taken_with_any_success(post: Any) -> None:
    with misbehaving_http(Older(post)) as endpoint:
        assert len(listing_of(HttpLaunch(url=endpoint.url, form="sse")).tools) == 2


DIGITS = b"9" * 5_000
DEEP = b"[" * 5_000 + b"]" * 5_000
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "digits": (b'{"jsonrpc": "2.0", "id": %ID%, "result": {"content": [], "n": ' + DIGITS + b"}}", "out of range"),
    "levels": (b'{"jsonrpc": "2.0", "id": %ID%, "result": {"content": [], "n": ' + DEEP + b"}}", "recursion limit"),
    "levels, and the id last": (b'{"jsonrpc": "2.0", "result": ' + DEEP + b', "id": %ID%}', "recursion limit"),
    "an end that is missing": (b'{"jsonrpc": "2.0", "id": %ID%, "result": {"content": [', "EOF while parsing"),
    "no result": (b'{"jsonrpc": "2.0", "id": %ID%, "result": [1]}', "not of the protocol"),
    "no id": (b'{"jsonrpc": "2.0", "result": {"n": ' + DIGITS + b"}}", "out of range"),
}


def broken(message: Message, body: bytes) -> bytes:
    """An answer to a call is `body`, any other is well."""
    if message.get("method") != "tools/call":
        return encoded(message)
    return body.replace(b"%ID%", str(message["id"]).encode())


PROGRAM = """
import json, pathlib, sys
sys.path.insert(0, {root!r})
from tests.upstream.test_foreign_answers import broken
body = pathlib.Path({body!r}).read_bytes()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        sys.stdout.buffer.write(broken(message, body) + b"\\n")
        sys.stdout.buffer.flush()
"""


@contextmanager
def stdio(folder: Path, body: bytes) -> Iterator[Launch]:
    (folder / "body").write_bytes(body)
    code = PROGRAM.format(root=str(Path(__file__).parents[2]), body=str(folder / "body"))
    yield StdioLaunch(command=sys.executable, args=("-c", code))


@contextmanager
def over_json(_: Path, body: bytes) -> Iterator[Launch]:
    with _served(lambda message: broken(message, body), "application/json") as launch:
        yield launch


@contextmanager
def over_events(_: Path, body: bytes) -> Iterator[Launch]:
    with _served(lambda message: event(broken(message, body)), "text/event-stream") as launch:
        yield launch


@contextmanager
def _served(answer: Callable[[Message], bytes], kind: str) -> Iterator[Launch]:
    def behave(exchange: Exchange, message: Message) -> None:
        if exchange.command != "POST" or "id" not in message:
            return exchange.send(202 if exchange.command == "POST" else 405)
        return exchange.send(200, answer(message), kind)

    with misbehaving_http(behave) as endpoint:
        yield HttpLaunch(url=endpoint.url)


@contextmanager
def older(_: Path, body: bytes) -> Iterator[Launch]:
    server = Older(lambda exchange, _: exchange.send(202), lambda message: broken(message, body))
    with misbehaving_http(server) as endpoint:
        yield HttpLaunch(url=endpoint.url, form="sse")


@pytest.mark.parametrize("served", [stdio, over_json, over_events, older])
@pytest.mark.parametrize("name", UNREADABLE)
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(name: str, served: Any, tmp_path: Path) -> None:
    """The call has a minute; that it ends is enough."""
    body, reason = UNREADABLE[name]
    with served(tmp_path, body) as launch:
        async with over(launch) as calls:
            with anyio.fail_after(20):
                with pytest.raises(UpstreamError, match=reason):
                    await calls.raw("alpha")
                assert len((await calls.connection.listing()).tools) == 2, "the connection goes on"


ODD: dict[str, tuple[bytes, str]] = {
    "an error that is a text": (b'{"jsonrpc": "2.0", "id": %ID%, "error": "no tide"}', "no tide"),
    "an error of another form": (b'{"jsonrpc": "2.0", "id": %ID%, "error": {"detail": "no tide"}}', "no tide"),
    "errors in a list": (b'{"jsonrpc": "2.0", "id": %ID%, "error": {"errors": [{"title": "no tide"}]}}', "no tide"),
    "a code that is a text": (
        b'{"jsonrpc": "2.0", "id": %ID%, "error": {"code": "E_7", "message": "no tide"}}',
        "E_7: no tide",
    ),
    "data and no message": (b'{"jsonrpc": "2.0", "id": %ID%, "error": {"code": -32050, "data": "no tide"}}', "no tide"),
    "an error without jsonrpc": (b'{"id": %ID%, "error": {"code": -32050, "message": "no tide"}}', "no tide"),
    "an error without an id": (
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": 7, "message": "no tide"}}',
        "no tide",
    ),
    "a result without jsonrpc": (b'{"id": %ID%, "result": {"content": [{"type": "text", "text": "2 m"}]}}', ""),
    "a mark before it": (b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": %ID%, "result": {"content": []}}', ""),
}


@pytest.mark.parametrize("served", [stdio, over_json, over_events, older])
@pytest.mark.parametrize("name", ODD)
async def test_what_a_server_says_in_another_form_reaches_its_caller(name: str, served: Any, tmp_path: Path) -> None:
    body, reason = ODD[name]
    with served(tmp_path, body) as launch:
        async with over(launch) as calls:
            with anyio.fail_after(20):
                if not reason:
                    assert "content" in await calls.raw("alpha")
                    return
                with pytest.raises(UpstreamAnswered) as caught:
                    await calls.raw("alpha")
                assert caught.value.message == reason


LOGS = [
    b'{"level": "error", "error": "no disk", "msg": "x"}',
    b"{'python': 'repr'}",
    b'{"broken": ',
    b"{\n  python: 'repr',\n}",
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": ' + DEEP + b"}",
]


@pytest.mark.parametrize("line", LOGS, ids=range(len(LOGS)))
async def test_a_line_that_is_no_answer_fails_nothing(line: bytes, tmp_path: Path) -> None:
    with stdio(tmp_path, line + b'\n{"jsonrpc": "2.0", "id": %ID%, "result": {"content": []}}') as launch:
        async with over(launch) as calls:
            assert await calls.raw("alpha") == {"content": []}


def refusing(error: Mapping[str, Any]) -> Callable[[Exchange, Message], None]:
    def behave(exchange: Exchange, message: Message) -> None:
        if exchange.command != "POST" or "id" not in message:
            return exchange.send(202 if exchange.command == "POST" else 405)
        is_call = message["method"] == "tools/call"
        refusal = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return exchange.send(200, json.dumps(refusal).encode() if is_call else encoded(message))

    return behave


def error_of_call(error: Mapping[str, Any], settings: Any = SETTINGS) -> UpstreamAnswered:
    from waygraph.ingest.upstream.open import connect

    async def run(url: str) -> UpstreamAnswered:
        from tests.upstream.calling import Listening

        async with connect(HttpLaunch(url=url, headers={"X-Key": "k3y-of-tests"}), settings) as connection:
            with pytest.raises(UpstreamAnswered) as caught, anyio.fail_after(20):
                await connection.call("alpha", {}, host=Listening())
        return caught.value

    with misbehaving_http(refusing(error)) as endpoint:
        return anyio.run(run, endpoint.url)


def test_an_error_of_a_server_keeps_its_lines_its_end_and_its_data() -> None:
    lines = ["The order could not be placed:", *(f"  {number}. no stock of part {number}" for number in range(40))]
    message = "\n".join([*lines, "Remedy: order fewer \x1b[1mparts\x1b[0m, with key k3y-of-tests."])
    error = error_of_call({"code": -32050, "message": message, "data": {"parts": [1, "k3y-of-tests"]}})
    assert error.code == -32050
    assert error.message.splitlines() == [*lines, "Remedy: order fewer parts, with key ***."]
    assert error.data == {"parts": [1, "***"]}


def test_an_error_of_a_server_is_no_longer_than_a_result() -> None:
    settings = replace(SETTINGS, call_result_tokens=500)
    message = "It failed.\n" + "x" * 100_000 + "\nGive berth=4."
    error = error_of_call({"code": -32050, "message": message, "data": "y" * 100_000}, settings)
    assert len(error.message) <= settings.most_error_chars
    assert error.message.startswith("It failed.\n")
    assert error.message.endswith("\nGive berth=4.")
    assert len(str(error.data)) < settings.most_error_chars


def _first(body: bytes, kind: str = "application/json", status: int = 200) -> Callable[[Exchange, Message], None]:
    """A session, and one odd answer to its beginning; all that comes afterwards fails otherwise."""

    def behave(exchange: Exchange, message: Message) -> None:
        if message.get("method") != "initialize":
            return exchange.send(418 if exchange.command == "GET" else 405, b"never mind", "text/plain")
        said = body.replace(b"%ANSWER%", encoded(message)).replace(b"%ID%", str(message["id"]).encode())
        return exchange.send(status, said, kind, Mcp_Session_Id="s1")

    return behave


FIRST: dict[str, tuple[Callable[[Exchange, Message], None], str]] = {
    "a list of answers": (_first(b"[%ANSWER%]"), "a list of messages"),
    "half an answer": (_first(b'{"jsonrpc": "2.0", "id": %ID%, "resu'), "EOF while parsing"),
    "an event without its end": (_first(b"data: %ANSWER%\n", "text/event-stream"), "ended amid an event"),
    "another result": (_first(b'{"jsonrpc": "2.0", "id": %ID%, "result": 7}'), "not of the protocol"),
    "a page": (_first(b"<p>Welcome</p>", "text/html"), "answered with text/html"),
    "a reason in words": (_first(b'{"error": "no tenant in the path"}', status=400), "no tenant in the path"),
    "an error of its own": (
        _first(b'{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32001,"message":"too early"}}'),
        "too early",
    ),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_reason_is_not_hidden_by_what_comes_after(name: str) -> None:
    """Such as the answer to the DELETE of the session, or what the older transport comes to."""
    behaviour, reason = FIRST[name]
    with misbehaving_http(behaviour) as endpoint, pytest.raises(UpstreamError) as caught:
        listing_of(HttpLaunch(url=endpoint.url))
    assert reason in caught.value.reason


def test_a_program_that_fails_in_two_ways_says_both(tmp_path: Path) -> None:
    """Some end at the first message; what the second attempt comes to may be of the first one's making."""
    code = f"""
import pathlib, sys
mark = pathlib.Path({str(tmp_path / "mark")!r})
sys.stdin.readline()
if mark.exists():
    sys.exit("Error: the lock is taken")
mark.touch()
sys.exit("Error: no port was given")
"""
    with pytest.raises(UpstreamError) as caught:
        listing_of(StdioLaunch(command=sys.executable, args=("-c", code)))
    assert "the lock is taken" in caught.value.reason
    assert "no port was given" in caught.value.reason


def issuing(exchange: Exchange, _: Message) -> None:
    """A server that wants a login; what its issuer publishes is compressed, and registering there is refused."""
    origin = exchange.endpoint.url.removesuffix("/mcp")
    documents = {
        "/resource": {"resource": exchange.endpoint.url, "authorization_servers": [origin]},
        "/.well-known/oauth-authorization-server": {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/join",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        },
    }
    if exchange.path == "/mcp":
        return exchange.send(401, WWW_Authenticate=f'Bearer resource_metadata="{origin}/resource"')
    if (document := documents.get(exchange.path)) is None:
        return exchange.send(404)
    return exchange.send(200, gzip.compress(json.dumps(document).encode()), Content_Encoding="gzip")


def test_what_an_issuer_publishes_is_read_though_compressed_and_the_refusal_stays_the_first_reason(
    tmp_path: Path,
) -> None:
    settings = replace(SETTINGS, data_dir=str(tmp_path))
    with misbehaving_http(issuing) as endpoint, pytest.raises(UpstreamError) as caught:
        listing_of(HttpLaunch(url=endpoint.url, oauth=True), settings)
    assert "/join" in [request[":path"] for request in endpoint.requests]
    assert "the issuer 127.0.0.1 refuses to register one (HTTP 404)" in caught.value.reason
