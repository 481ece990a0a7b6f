"""What every endpoint reaches: the registry, who calls, what is recorded, and the threads that work for it.

The core is synchronous. Each kind of work has threads of its own: slow work never takes those of quick work.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, cast

from fastapi import Request

from waygraph.api.telemetry.request_log import note_caller
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.errors import (
    IssuerUnavailable,
    NotAllowed,
    NotAuthenticated,
    ServiceStopping,
    WaygraphError,
)
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.process import processors, step_back

if TYPE_CHECKING:
    from waygraph.api.rest.follow import Follower
    from waygraph.api.telemetry.audit import Audit
    from waygraph.api.telemetry.metrics import Metrics
    from waygraph.registry.access.api_keys import KeyFile
    from waygraph.registry.access.authenticator import Authenticator, FailureLimit, RateLimit
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry


_WAITING = 8
_WRITING = 2
_TENDING = 2


class Lanes:
    """One pool of threads for each kind of work; within a lane who comes first is served first."""

    def __init__(self, *, asking: int, timeout_s: float) -> None:
        self._timeout_s, self._closing = timeout_s, threading.Event()
        self._asking = ThreadPoolExecutor(asking or default_threads(), "ask")
        self._waiting = ThreadPoolExecutor(_WAITING, "wait")
        self._writing = ThreadPoolExecutor(_WRITING, "write", initializer=step_back)
        self._tending = ThreadPoolExecutor(_TENDING, "tend")

    async def ask[T](self, work: Callable[[], T]) -> T:
        """Quick work over what is published: routes, lists. Raises TimeoutError for one that takes too long."""
        async with asyncio.timeout(self._timeout_s):
            return await _run_in(self._asking, work)

    async def wait[T](self, work: Callable[[], T]) -> T:
        """Work with limits of time of its own, which mostly waits: a typed statement, an issuer, an export."""
        return await _run_in(self._waiting, work)

    async def tend[T](self, work: Callable[[], T]) -> T:
        """What those ask who look after the service: whether it is ready, its numbers."""
        return await _run_in(self._tending, work)

    async def write[T](self, work: Callable[[], T]) -> T:
        """A write that has begun ends, and its outcome is reported."""
        return await _run_in(self._writing, work)

    def go_on(self, count: int, total: int) -> None:  # noqa: ARG002 - it is called with how far a write is
        """To be called while a write may still be given up. Raises ServiceStopping once the lanes close."""
        if self._closing.is_set():
            raise ServiceStopping

    def close(self) -> None:
        """Waits for what was begun and asks no more whether to `go_on`; what was not begun is dropped."""
        self._closing.set()
        for pool in (self._asking, self._waiting, self._writing, self._tending):
            pool.shutdown(cancel_futures=True)


async def _run_in[T](pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """In the context of the request: its id is on what the work logs."""
    return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, work)


def default_threads() -> int:
    """More than cores only make each other wait: a route hardly waits for anything but its turn."""
    return max(2, processors())


_CALLER_KEY = "waygraph.caller"
STRANGER = Caller(id="anonymous", scopes=frozenset(), principal=Principal())


class Readiness:
    """Whether index and model are loaded, and the registry and the keys can be read. Threads may share it."""

    def __init__(self, registry: "LocalRegistry", keys: "KeyFile | None") -> None:
        self._registry, self._keys, self._lock, self._loaded = registry, keys, Lock(), False

    def hindrance(self) -> WaygraphError | None:
        """Why the service is not ready; None if it is. A place without a registry is ready to be written to."""
        try:
            if self._keys:
                self._keys.list()
            if self._loaded:
                _ = self._registry.stamp  # what was loaded may be gone, and a database away
            else:
                self._load()
        except WaygraphError as error:
            return error
        return None

    def _load(self) -> None:
        with self._lock:
            if self._registry.store.exists and not self._loaded:
                self._registry.route("are you ready")
                self._loaded = True


@dataclass(frozen=True, kw_only=True)
class Service:
    """`authenticator` None: nobody is asked who they are, and everybody may do everything."""

    registry: "LocalRegistry"
    settings: "Settings"
    authenticator: "Authenticator | None"
    requests: "RateLimit"
    failures: "FailureLimit"
    lanes: Lanes
    audit: "Audit"
    metrics: "Metrics"
    readiness: Readiness
    follower: "Follower"

    async def caller(self, request: Request) -> Caller:
        """As `caller_at_endpoint`. Raises NotAllowed for one that is kept to a toolset's endpoint of MCP."""
        caller = await self.caller_at_endpoint(request)
        if caller.toolset:
            raise NotAllowed(f"this key is for the toolset {caller.toolset!r} alone, at /{caller.toolset}/mcp")
        return caller

    async def caller_at_endpoint(self, request: Request) -> Caller:
        """Who calls, counted against its limit. Raises NotAuthenticated, TooManyRequests."""
        caller = await self._caller_of(request)
        self.count(caller)
        return caller

    async def admit(self, request: Request) -> None:
        """Before a body is read: it has to be known who sends it. Raises as `caller`."""
        await self._caller_of(request)

    def count(self, caller: Caller) -> None:
        """One request more of this caller. Raises TooManyRequests. Where nobody is told apart nobody is limited."""
        if self.authenticator is not None:
            self.requests.take(caller.id)

    async def caller_or_stranger(self, request: Request) -> Caller:
        """The same, where those may ask too who show nothing: they may do nothing else."""
        shows_nothing = not {"authorization", "x-api-key"} & set(request.headers.keys())
        return STRANGER if self.authenticator and shows_nothing else await self.caller(request)

    async def _caller_of(self, request: Request) -> Caller:
        """Asked once of a request."""
        caller: Caller | None = request.scope.get(_CALLER_KEY)
        if caller is None:
            caller = LOCAL if self.authenticator is None else await self._authenticate(self.authenticator, request)
            request.scope[_CALLER_KEY] = caller
            note_caller(request.scope, caller)
        return caller

    async def _authenticate(self, authenticator: "Authenticator", request: Request) -> Caller:
        credentials = request.headers.get("authorization"), request.headers.get("x-api-key")
        try:
            caller = authenticator.known_caller(*credentials)
            return caller if caller else await self.lanes.wait(lambda: authenticator.caller(*credentials))
        except (NotAuthenticated, IssuerUnavailable):
            self.failures.count_failure(request.client.host if request.client else "")
            raise


async def service_of(request: Request) -> Service:
    # FastAPI runs a plain function in a thread of its own.
    return cast("Service", request.app.state.service)
