"""Serves an ASGI application on the loopback address of this machine, until it is told to stop."""

from collections.abc import Callable
from typing import Any

import uvicorn

from waygraph.api.rest.bootstrap import Alone, listen, stops_in_order

HOST = "127.0.0.1"


def serve_on_loopback(app: Any, port: int, before: Callable[[str], None]) -> None:
    """`port` 0: any that is free. `before` gets the address, which is open, before the first request is answered.

    Raises InvalidSetting for a port that cannot be had, and what `before` raises.
    """
    with stops_in_order() as stops, listen(HOST, port) as listening:
        before(f"http://{HOST}:{listening.getsockname()[1]}")
        config = uvicorn.Config(
            app, log_config=None, access_log=False, ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
        Alone(config, stops).run(sockets=[listening])
