"""What every HTTP double shares: a server on a free loopback port, in a thread, that logs nothing and ends in order."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer


class Quiet:
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """Calls at once: a queue of 5, as by default, makes the others wait for a second."""


@contextmanager
def serving(endpoint: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Its address, without a path."""
    with _Server(("127.0.0.1", 0), endpoint) as server, serve_in_thread(server):
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def serve_in_thread(server: BaseServer) -> Iterator[None]:
    """Until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
