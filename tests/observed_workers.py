"""`python -m tests.observed_workers`: two workers behind one port, which is printed. SIGTERM ends them."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import uvicorn
from uvicorn.supervisors import Multiprocess

from waygraph.api.telemetry.metrics import SHARED_FOLDER, shared_folder


def application() -> object:
    """What each worker serves: who it is, and a request that never ends."""
    from tests.observed_service import application as base
    from waygraph.api.telemetry.logs import open_logs
    from waygraph.api.telemetry.metrics import Metrics
    from waygraph.api.telemetry.request_log import ObservedApplication

    metrics = Metrics(folder=Path(os.environ[SHARED_FOLDER]))
    app = base(metrics)

    @app.get("/pid")
    async def pid() -> int:
        return os.getpid()

    @app.get("/hangs")
    async def hangs() -> None:
        await asyncio.sleep(600)

    return ObservedApplication(app, log=open_logs("info", sys.stderr), metrics=metrics)


def main() -> None:
    with shared_folder(os.environ) as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], folder, flush=True)  # noqa: T201
        config = uvicorn.Config(
            "tests.observed_workers:application", factory=True, workers=2, log_config=None, timeout_graceful_shutdown=1
        )
        Multiprocess(config, sockets=[listener]).run()


if __name__ == "__main__":
    main()
