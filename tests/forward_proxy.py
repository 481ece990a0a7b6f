"""A proxy of a network, HTTP and SOCKS 5 on one port: whatever host is asked for, it leads to one server here."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer

from tests.http_doubles import serve_in_thread

SOCKS_5, BY_NAME = 5, 3
_SUCCEEDED = bytes((SOCKS_5, 0, 0, 1)) + bytes(6)


@dataclass
class ForwardProxy:
    """`asked`: by which way, and for which host."""

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def socks(self) -> str:
        return f"socks5://127.0.0.1:{self.port}"


@contextmanager
def forward_proxy(target_port: int) -> Iterator[ForwardProxy]:
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.target = ("127.0.0.1", target_port)
        server.proxy = ForwardProxy(server.server_address[1])
        with serve_in_thread(server):
            yield server.proxy


class _Server(ThreadingTCPServer):
    daemon_threads = True
    target: tuple[str, int]
    proxy: ForwardProxy


class _Connection(BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        client: socket.socket = self.request
        first = client.recv(1, socket.MSG_PEEK)
        if not first:
            return
        way, host = ("socks", self._socks_host()) if first[0] == SOCKS_5 else ("http", self._http_host())
        self.server.proxy.asked.append((way, host))
        with socket.create_connection(self.server.target) as server:
            threading.Thread(target=_pump, args=(server, client), daemon=True).start()
            _pump(client, server)

    def _socks_host(self) -> str:
        """The handshake without a login (RFC 1928)."""
        client: socket.socket = self.request
        client.recv(1 + 1 + client.recv(2, socket.MSG_PEEK)[1])
        client.sendall(bytes((SOCKS_5, 0)))
        kind = client.recv(4)[3]
        assert kind == BY_NAME, "the proxy is to resolve the name"
        host = client.recv(client.recv(1)[0]).decode()
        [_port] = struct.unpack("!H", client.recv(2))
        client.sendall(_SUCCEEDED)
        return host

    def _http_host(self) -> str:
        """Of a request with the whole address in its first line, which servers understand as it is."""
        client: socket.socket = self.request
        address = client.recv(4096, socket.MSG_PEEK).split(b" ")[1].decode()
        return address.removeprefix("http://").partition("/")[0]


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while said := source.recv(65536):
            target.sendall(said)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
