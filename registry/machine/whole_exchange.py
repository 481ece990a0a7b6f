"""An end for an exchange over HTTP once it is connected, the head of its answer included: a client's own limit is for
each read."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Self

_CONNECTED = ("connect_tcp.complete", "start_tls.complete")


class CutOff:
    """While it is entered: after `after_s` seconds what was connected is shut down, and whoever reads there stops.

    `seen` belongs into the request's extensions as `trace`. For clients that are used once: it does not hear of a
    connection that stood before.
    """

    def __init__(self, after_s: float) -> None:
        self.is_over = False
        """Whether the time was up."""
        self._timer = Timer(after_s, self._cut)
        self._timer.daemon = True
        self._sockets: list[socket.socket] = []
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def seen(self, event: str, info: Mapping[str, Any]) -> None:
        """What the client tells of a connection: https://www.encode.io/httpcore/extensions/#trace."""
        if event.endswith(_CONNECTED):
            with self._lock:
                self._sockets.append(info["return_value"].get_extra_info("socket"))
                if self.is_over:
                    self._shut()

    def _cut(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut()

    def _shut(self) -> None:
        for each in self._sockets:
            with suppress(OSError):  # ended already, or TLS has taken its place
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # without what TLS does, which is the reader's
