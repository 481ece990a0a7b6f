"""uvicorn as this service needs it: on which socket, alone or in several processes, and how it is told to stop."""

import errno
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, isfinite
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.supervisors import Multiprocess

from waygraph.api.rest.protocol import Protocol
from waygraph.registry.errors import InvalidSetting

if TYPE_CHECKING:
    from waygraph.api.rest.observing.observed import Application
    from waygraph.registry.settings import Settings

STARTING_S = 20
"""A worker that gives no sign for so long is ended, and another one started; on a slow machine to start takes long."""
KEEP_ALIVE_S = 30


def listen(host: str, port: int) -> socket.socket:
    """Raises InvalidSetting for an address that cannot be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as exc:
        advice = "; name another with --port" if exc.errno == errno.EADDRINUSE else ""
        reason = os.strerror(exc.errno) if exc.errno and exc.errno in errno.errorcode else exc.strerror
        raise InvalidSetting(f"cannot listen on {host}:{port}: {reason}{advice}") from exc
    listening.set_inheritable(True)
    return listening


@contextmanager
def stops_in_order() -> Iterator[list[int]]:
    """Signals to stop that come before uvicorn hears them itself.

    It raises the one that stopped it again when it is done: told to stop, it did what it was told.
    """
    heard: list[int] = []
    stops = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in stops}
    try:
        yield heard
    finally:
        for number, action in before.items():
            signal.signal(number, action)


class Alone(uvicorn.Server):
    """One process, which was perhaps told to stop before it heard for itself."""

    def __init__(self, config: uvicorn.Config, heard: Sequence[int]) -> None:
        super().__init__(config)
        self._heard = heard

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._heard:
            self.should_exit = True


class Workers(Multiprocess):
    """Several processes, and the one that keeps them, which was perhaps told to stop before it heard for itself."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], heard: Sequence[int]) -> None:
        super().__init__(config, sockets)
        self.signal_queue += heard

    def terminate_all(self) -> None:
        """Who comes from now on is refused: held open here, the port would take connections that nobody serves."""
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


def configuration(
    app: "Application | str", settings: "Settings", environ: Mapping[str, str], *, workers: int = 1
) -> uvicorn.Config:
    """How uvicorn serves it. `app` as text: where its factory is. `environ` names the proxies that are believed."""
    proxies = environ.get("FORWARDED_ALLOW_IPS")
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        http=Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=ceil(settings.drain_timeout_s) if isfinite(settings.drain_timeout_s) else None,
        timeout_worker_healthcheck=STARTING_S,
        lifespan="on",
    )
