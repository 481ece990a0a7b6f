"""A host on standard input and output, as `waygraph mcp` serves it. Nothing but the protocol is written to output.

What a host has under way when it leaves is answered.
"""

import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, redirect_stdout
from threading import Timer
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from waygraph.registry.model.errors import InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from waygraph.api.mcp import Surface
    from waygraph.api.mcp.gateway import Parts
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry

_log = logging.getLogger("waygraph.mcp")
LAST_S = 1.5
"""So long may what runs go on once its host has closed its side."""

_ENDLESS = "subscriptions/listen"
_CANCELLED = "notifications/cancelled"

type Incoming = SessionMessage | Exception


def run_stdio(
    registry: "LocalRegistry",
    settings: "Settings",
    surroundings: "Surroundings",
    *,
    surface: "Surface",
    namespace: str,
    on_first_answer: Callable[[], None],
) -> None:
    """Serves until the host closes its side, or SIGTERM or SIGINT. Before it begins it raises InvalidSetting.

    `namespace` empty: the whole registry. `on_first_answer` is called once a host has an answer.
    """
    from waygraph.api.mcp.gateway import read_parts
    from waygraph.api.telemetry.logs import take_over_logging
    from waygraph.api.telemetry.traces import open_traces
    from waygraph.registry.model.process import loop_options

    parts = read_parts(registry, settings, surroundings, surface=surface)
    take_over_logging(settings.log_level, sys.stderr)
    with ExitStack() as closing:
        closing.callback(parts.audit.close)
        try:
            if traces := open_traces(surroundings.environ, sys.stderr):
                closing.callback(traces.close)
        except (InvalidSetting, MissingExtra) as error:  # the host may have handed on variables of its own
            _log.warning("nothing is traced: %s", error)
        anyio.run(_serve, parts, namespace, on_first_answer, closing, backend_options=loop_options())


async def _serve(parts: "Parts", namespace: str, on_first_answer: Callable[[], None], closing: ExitStack) -> None:
    from waygraph.api.mcp.server import open_server
    from waygraph.api.mcp.sessions import Asker, Session
    from waygraph.registry.access.visibility import LOCAL

    asker = Asker(caller=LOCAL, session=Session(), namespace=namespace)

    async def answer() -> None:
        async with open_server(parts, lambda _: asker) as server:
            if usage := server.gateway.usage:
                usage.note_host("", "start")
            await server.run(reading, writing, server.create_initialization_options())

    async with host_streams(on_first_answer) as (reading, writing):
        if await until_signal(answer):
            closing.close()
            parts.registry.close()
            leave()


async def until_signal(work: Callable[[], Any]) -> bool:
    """Whether SIGTERM or SIGINT ended the work, which is cancelled then."""
    scope = anyio.CancelScope()

    async def cancel_by_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel()
                return

    async with anyio.create_task_group() as tasks:
        with scope:
            tasks.start_soon(cancel_by_signal)
            await work()
        tasks.cancel_scope.cancel()
    return scope.cancel_called


def leave() -> None:
    """Ends the process: a thread of the SDK's waits for the host's next line, and nothing wakes it."""
    sys.stderr.flush()
    os._exit(0)


@asynccontextmanager
async def host_streams(
    on_first_answer: Callable[[], None] = lambda: None,
) -> AsyncGenerator[tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]]:
    """The host's messages, and messages to it.

    A script writes its requests and closes the pipe, `printf … | waygraph mcp`, and reads the answers after that. The
    SDK ends whatever runs as soon as there is nothing more to read; here it has LAST_S to be answered.
    """
    try:
        async with stdio_server() as (reading, writing):
            unanswered = _OpenRequests(on_first_answer)
            with redirect_stdout(sys.stderr):
                to_host = _Writing(writing, unanswered)
                yield _Reading(reading, to_host, unanswered), to_host
            # A host that has left and reads nothing more: the SDK's thread that writes to it would wait for ever.
            ending = Timer(LAST_S, leave)
            ending.daemon = True
            ending.start()
        ending.cancel()
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the host reads no more


class _OpenRequests:
    """Requests of the host that wait for an answer, by id."""

    def __init__(self, on_first_answer: Callable[[], None]) -> None:
        self._ids, self._on_first_answer = set[types.RequestId](), on_first_answer
        self._is_first = True
        self._none = anyio.Event()
        self._none.set()

    def add(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method != _ENDLESS:
            self._ids.add(message.id)
            self._none = anyio.Event()
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._remove((message.params or {}).get("requestId"))

    def settle(self, item: SessionMessage) -> None:
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._remove(item.message.id)
            if self._is_first:
                self._is_first = False
                self._on_first_answer()

    def _remove(self, request_id: object) -> None:
        if isinstance(request_id, int | str):
            self._ids.discard(request_id)
        if not self._ids:
            self._none.set()

    async def wait(self) -> None:
        """Returns when there is none."""
        await self._none.wait()


class _Reading(ObjectReceiveStream[Incoming]):
    """What the host says. It ends when all is answered, or LAST_S after the host left."""

    def __init__(self, inner: Any, to_host: "_Writing", unanswered: _OpenRequests) -> None:
        self._inner, self._to_host, self._unanswered = inner, to_host, unanswered

    async def receive(self) -> Incoming:
        while True:
            try:
                item: Incoming = await self._inner.receive()
            except anyio.EndOfStream:
                with anyio.move_on_after(LAST_S):
                    await self._unanswered.wait()
                raise
            if isinstance(item, SessionMessage):
                self._unanswered.add(item)
                return item
            await self._to_host.send(_error(None, types.PARSE_ERROR, "this is no JSON-RPC message"))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Writing(ObjectSendStream[SessionMessage]):
    """Messages to the host. The SDK's transport would end with one that cannot be written as JSON."""

    def __init__(self, inner: Any, unanswered: _OpenRequests) -> None:
        self._inner, self._unanswered = inner, unanswered

    async def send(self, item: SessionMessage, /) -> None:
        if sendable := _sendable(item):
            try:
                await self._inner.send(sendable)
            finally:
                self._unanswered.settle(item)  # also where nobody reads it any more

    async def aclose(self) -> None:
        await self._inner.aclose()


def _sendable(item: SessionMessage) -> SessionMessage | None:
    """The message, or the error that takes the place of an answer that cannot be written; None: it is lost."""
    try:
        item.message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError as fault:
        _log.error("a message to the host cannot be written (%s)", type(fault).__name__)
        if not isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            return None
        return _error(item.message.id, types.INTERNAL_ERROR, "the answer cannot be written as JSON")
    return item


def _error(request_id: types.RequestId | None, code: int, message: str) -> SessionMessage:
    return SessionMessage(
        types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
    )
