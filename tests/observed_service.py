"""A small service that is observed as the real one is, and the server under it: uvicorn on a free loopback port."""

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from waygraph.api.telemetry.audit import Audit
from waygraph.api.telemetry.logs import open_logs
from waygraph.api.telemetry.metrics import Metrics
from waygraph.api.telemetry.request_log import Application, ObservedApplication, note_caller
from waygraph.api.telemetry.traces import Traces
from waygraph.registry.access.visibility import Caller
from waygraph.registry.registry import Registry

CALLER = Caller(id="key:0123456789ab", name="ci", scopes=frozenset({"route"}), principal=None)
KEY = "wg_0123456789ab_c2VjcmV0LXNlY3JldC1zZWNyZXQ"
logger = logging.getLogger("waygraph.tests.observed_service")


def application(metrics: Metrics, registry: Registry | None = None) -> FastAPI:
    """Routes of every kind, and a handler of its own for errors that escape."""
    app, router = FastAPI(), APIRouter(prefix="/v1")

    @router.get("/agents/{agent_id}")
    async def agent(agent_id: str, request: Request) -> dict[str, str]:
        note_caller(request.scope, CALLER)
        await asyncio.to_thread(logger.info, "looked up in a thread")
        return {"id": agent_id}

    @router.post("/route")
    async def route(request: Request) -> dict[str, int]:
        asked = (await request.json())["text"]
        found = await asyncio.to_thread(registry.route, asked) if registry else None
        return {"found": len(found.matches) if found else 0}

    @app.get("/status/{status}")
    async def answer_with(status: int) -> Response:
        return PlainTextResponse("as asked", status)

    @app.get("/fails")
    async def fails(request: Request) -> None:
        raise RuntimeError(f"headers {request.headers.items()}, url {request.url}")

    @app.get("/metrics")
    async def numbers() -> Response:
        body, kind = metrics.exposition()
        return Response(body, media_type=kind)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"title": "Internal error"}, 500, media_type="application/problem+json")

    app.include_router(router, prefix="/api")
    app.mount("/within", _inner())
    return app


def _inner() -> FastAPI:
    app = FastAPI()

    @app.get("/things/{thing}")
    async def thing(thing: str) -> str:
        return thing

    return app


class Service:
    """A running one: where it is, and what it logged."""

    def __init__(self, port: int, stream: StringIO, metrics: Metrics) -> None:
        self.port, self.metrics, self._stream = port, metrics, stream

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._stream.getvalue()

    def lines(self, **wanted: object) -> list[dict[str, Any]]:
        """The lines of the log, of format json, that hold these values."""
        read = [json.loads(line) for line in self.log.splitlines()]
        return [line for line in read if wanted.items() <= line.items()]

    def line(self, **wanted: object) -> dict[str, Any]:
        """The one line that holds these values: an answer is read before its line is written."""
        give_up = time.monotonic() + 60
        while not (found := self.lines(**wanted)) and time.monotonic() < give_up:
            time.sleep(0.005)
        assert len(found) == 1, (wanted, self.log)
        return found[0]

    def raw(self, request: bytes) -> bytes:
        """What is answered to these very bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65_536), b""))


@contextmanager
def observed_service(
    *,
    registry: Registry | None = None,
    traces: Traces | None = None,
    audit: Audit | None = None,
    metrics: Metrics | None = None,
    log_level: str = "info",
) -> Iterator[Service]:
    stream, metrics = StringIO(), metrics or Metrics()
    with logging_as_it_was():
        log = open_logs(log_level, stream, metrics.lost_log_line)
        app = ObservedApplication(application(metrics, registry), log=log, metrics=metrics, traces=traces, audit=audit)
        with serving(app) as port:
            yield Service(port, stream, metrics)


@contextmanager
def serving(app: Application) -> Iterator[int]:
    """The port of a uvicorn that serves it, until the context ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    # Access lines are asked for here: that there are none is what is tested.
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=True, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Afterwards handlers and levels are the former ones."""
    names = ["", "waygraph", "uvicorn", "uvicorn.access", "uvicorn.error"]
    loggers = [logging.getLogger(name) for name in names]
    held = [(each, each.level, list(each.handlers), each.propagate) for each in loggers]
    try:
        yield
    finally:
        for each, level, handlers, propagate in held:
            each.setLevel(level)
            each.handlers, each.propagate = handlers, propagate


def samples(exposition: bytes) -> Mapping[str, float]:
    """Series → value, as Prometheus's text format has them."""
    lines = [line for line in exposition.decode().splitlines() if line and not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}
