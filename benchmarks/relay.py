"""Stands between a client and a server on loopback and counts how often the client speaks after an answer."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536


class Relay:
    """Passes bytes on as they come. `round_trips` counts over all connections."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.round_trips = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in (self._listening, *self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                answered = threading.Event()
                answered.set()
                for source, target, speaks in ((client, server, True), (server, client, False)):
                    arguments = (source, target, answered, speaks)
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answered: threading.Event, speaks: bool) -> None:
        with suppress(OSError):  # closed at the end
            while data := source.recv(CHUNK_BYTES):
                if not speaks:
                    answered.set()
                elif answered.is_set():
                    answered.clear()
                    with self._lock:
                        self.round_trips += 1
                target.sendall(data)
