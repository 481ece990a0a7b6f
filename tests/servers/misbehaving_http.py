"""MCP servers that no client should suffer from, over HTTP: one behaviour on a free loopback port.

`misbehaving_http(BEHAVIOUR)` runs one in this process, and tells what it was asked.
"""

import gzip
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.http_doubles import Quiet, serve_in_thread
from tests.servers.wire import greeting, listing, tool

Json = Any
MEGABYTE = 1_000_000
HELD_S = 60.0
"""For how long one that never answers holds a connection, if the test does not end before."""


@dataclass
class Endpoint:
    """Where it is reached, and what it was asked."""

    url: str = ""
    other: str = ""
    """Where it sends its callers."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request, by their names in small letters, and `:method` and `:path`."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over: nothing is held any longer."""


class Exchange(Quiet, BaseHTTPRequestHandler):
    """A request and what is written back; `endpoint` and `behaviour` are set by `misbehaving_http`."""

    protocol_version = "HTTP/1.1"
    endpoint: Endpoint
    behaviour: "Behaviour"

    def do_POST(self) -> None:
        self._take()

    def do_GET(self) -> None:
        self._take()

    def do_DELETE(self) -> None:
        self._take()

    def _take(self) -> None:
        heard = {name.lower(): value for name, value in self.headers.items()}
        self.endpoint.requests.append({":method": self.command, ":path": self.path, **heard})
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            message = json.loads(body) if body else {}
        except ValueError:
            message = {}
        try:
            self.behaviour(self, message)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def send(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def begin(self, kind: str) -> None:
        """A body whose length is not said; the connection's end is its end."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()


Behaviour = Callable[[Exchange, dict[str, Json]], None]


def result_of(message: dict[str, Json], result: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()


def good(exchange: Exchange, message: dict[str, Json], listed: Callable[[], Json] = listing) -> None:
    """What a server of the handshake era answers, without sessions and streams."""
    if exchange.command != "POST":
        return exchange.send(405)
    if "id" not in message:
        return exchange.send(202)
    method = message.get("method")
    if method == "initialize":
        return exchange.send(200, result_of(message, greeting()))
    if method == "tools/list":
        return exchange.send(200, result_of(message, listed()))
    refusal = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    return exchange.send(200, json.dumps(refusal).encode())


def _at_listing(what: Behaviour) -> Behaviour:
    """Good up to the list."""

    def behave(exchange: Exchange, message: dict[str, Json]) -> None:
        (what if message.get("method") == "tools/list" else good)(exchange, message)

    return behave


def never_answers(exchange: Exchange, message: dict[str, Json]) -> None:
    exchange.endpoint.ended.wait(HELD_S)
    exchange.close_connection = True


def answers_late(seconds: float) -> Behaviour:
    def behave(exchange: Exchange, message: dict[str, Json]) -> None:
        if message.get("method") == "initialize":
            exchange.endpoint.ended.wait(seconds)
        good(exchange, message)

    return behave


def status(code: int, body: bytes = b"<html><body><h1>No</h1></body></html>", **headers: str) -> Behaviour:
    return lambda exchange, _: exchange.send(code, body, "text/html", **headers)


def web_page(exchange: Exchange, message: dict[str, Json]) -> None:
    """A page for people, as an address without a server of MCP answers."""
    exchange.send(200, b"<!doctype html><title>Welcome</title>", "text/html")


def redirects(exchange: Exchange, message: dict[str, Json]) -> None:
    """To another host, which is to hear nothing of what this one is told."""
    exchange.send(307, b"", Location=exchange.endpoint.other)


def redirects_in_circles(exchange: Exchange, message: dict[str, Json]) -> None:
    exchange.send(307, b"", Location=exchange.path)


def long_answer(megabytes: float) -> Behaviour:
    return _at_listing(lambda exchange, message: good(exchange, message, lambda: listing(tool("a", _text(megabytes)))))


def long_event(megabytes: float) -> Behaviour:
    """The same in one event of a stream."""

    def behave(exchange: Exchange, message: dict[str, Json]) -> None:
        exchange.begin("text/event-stream")
        result = result_of(message, listing(tool("a", _text(megabytes))))
        exchange.wfile.write(b"event: message\r\ndata: " + result + b"\r\n\r\n")

    return _at_listing(behave)


def packed_answer(megabytes: float) -> Behaviour:
    """Some kilobytes that unpack to so many megabytes."""

    def behave(exchange: Exchange, message: dict[str, Json]) -> None:
        result = result_of(message, listing(tool("a", _text(megabytes))))
        exchange.send(200, gzip.compress(result), Content_Encoding="gzip")

    return _at_listing(behave)


def _text(megabytes: float) -> str:
    return "x" * int(megabytes * MEGABYTE)


def endless_answer(kind: str) -> Behaviour:
    """A body without an end, as fast as it is read."""

    def behave(exchange: Exchange, message: dict[str, Json]) -> None:
        exchange.begin(kind)
        exchange.wfile.write(b"data: " if "event" in kind else b'{"jsonrpc": "2.0", "result": "')
        while not exchange.endpoint.ended.is_set():
            exchange.wfile.write(b"x" * MEGABYTE)

    return _at_listing(behave)


def drips(exchange: Exchange, message: dict[str, Json]) -> None:
    """A comment of a stream every 50 ms, which keeps every timeout between bytes from coming, and never an answer."""
    exchange.begin("text/event-stream")
    while not exchange.endpoint.ended.wait(0.05):
        exchange.wfile.write(b": still here\n\n")
        exchange.wfile.flush()


def dies_mid_answer(exchange: Exchange, message: dict[str, Json]) -> None:
    """Fewer bytes than it had said."""
    body = result_of(message, listing())
    exchange.send_response(200)
    exchange.send_header("Content-Type", "application/json")
    exchange.send_header("Content-Length", str(len(body)))
    exchange.end_headers()
    exchange.wfile.write(body[: len(body) // 2])
    exchange.close_connection = True


def no_json(exchange: Exchange, message: dict[str, Json]) -> None:
    exchange.send(200, b"{this is not JSON \xff")


def null(exchange: Exchange, message: dict[str, Json]) -> None:
    exchange.send(200, result_of(message, None))


def wrong_ids(exchange: Exchange, message: dict[str, Json]) -> None:
    exchange.send(200, result_of({"id": "somebody-else's"}, listing()))


def tells_its_caller(exchange: Exchange, message: dict[str, Json]) -> None:
    """Says in its answer what it was sent as a key."""
    body = f"bad key {exchange.headers.get('Authorization')} {exchange.headers.get('X-Api-Key')}".encode()
    exchange.send(403, body, "text/plain")


def stream_to_elsewhere(exchange: Exchange, message: dict[str, Json]) -> None:
    """The older SSE, which tells its caller to post to another host."""
    if exchange.command == "POST":
        return exchange.send(405)
    exchange.begin("text/event-stream")
    exchange.wfile.write(f"event: endpoint\r\ndata: {exchange.endpoint.other}\r\n\r\n".encode())
    exchange.wfile.flush()
    exchange.endpoint.ended.wait(HELD_S)
    return None


lists_never = _at_listing(never_answers)
lists_drip = _at_listing(drips)
lists_half = _at_listing(dies_mid_answer)
lists_no_json = _at_listing(no_json)
lists_null = _at_listing(null)
lists_wrong_ids = _at_listing(wrong_ids)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up on one of these is right to."""


@contextmanager
def misbehaving_http(behaviour: Behaviour, tls: ssl.SSLContext | None = None, other: str = "") -> Iterator[Endpoint]:
    """One on a free loopback port, over TLS where a context is given. `other`: where it sends its callers."""
    endpoint = Endpoint(other=other)
    exchange = type("Exchange", (Exchange,), {"endpoint": endpoint, "behaviour": staticmethod(behaviour)})
    with _Server(("127.0.0.1", 0), exchange) as server:
        if tls is not None:
            # The handshake is the thread's that answers: one that fails is that caller's alone.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        endpoint.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/mcp"
        with serve_in_thread(server):
            try:
                yield endpoint
            finally:
                endpoint.ended.set()
