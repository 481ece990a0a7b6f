"""A service that is not well: on a real socket, each request is met as the script says."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from socket import SHUT_RDWR, socket
from typing import Any

from tests.http_doubles import serve_in_thread
from waygraph.registry.http.problems import problem

type Behaviour = Callable[[socket], None]


@dataclass
class Seen:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Flaky:
    """`script`: how the next requests are met, in turn; after the last one connections are closed unanswered."""

    port: int
    script: list[Behaviour] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def flaky(*script: Behaviour, port: int = 0) -> Iterator[Flaky]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while request := _read(self.rfile):
                service.seen.append(request)
                if not service.script:
                    return
                service.script.pop(0)(self.connection)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", port), Handler) as server:
        service = Flaky(server.server_address[1], list(script))
        with serve_in_thread(server):
            yield service


def _read(stream: Any) -> Seen | None:
    """The next request of a connection; None if there is none."""
    try:
        line = stream.readline().decode().strip()
        headers = {}
        while header := stream.readline().decode().strip():
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        return Seen(line, headers, stream.read(int(headers.get("content-length", 0)))) if line else None
    except ConnectionError:
        return None


def reply(body: bytes | object = b"", status: int = 200, kind: str = "application/json", **headers: str) -> Behaviour:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"Content-Type": kind, "Content-Length": str(len(content)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return raw(f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + content)


def trouble(status: int, code: str, detail: str = "not now", **more: Any) -> Behaviour:
    """A problem as a service tells it."""
    headers = more.pop("headers", {})
    told = problem(status, code, detail, "urn:waygraph:request:1", **more)
    return reply(told, status, "application/problem+json", **headers)


def raw(content: bytes) -> Behaviour:
    return lambda connection: connection.sendall(content)


def drop(connection: socket) -> None:
    """Without a word."""
    connection.shutdown(SHUT_RDWR)


def half(connection: socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
    drop(connection)


@contextmanager
def silence() -> Iterator[Behaviour]:
    """No answer until the context ends."""
    ended = threading.Event()

    def wait(connection: socket) -> None:
        ended.wait(60)
        drop(connection)

    try:
        yield wait
    finally:
        ended.set()
