"""What every endpoint reaches: the registry, who calls, what is recorded, and the threads that work for it.

The core is synchronous. Each kind of work has threads of its own: slow work never takes those of quick work.

An exchange: a request for one operation, who asks, and how a handler's answer becomes a response.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from hashlib import sha256
from importlib.metadata import version
from inspect import iscoroutinefunction, signature
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from waygraph.api.rest.browser_sessions import BrowserSessions, refuse_foreign
from waygraph.api.rest.follow import Follower
from waygraph.api.rest.openapi import describe
from waygraph.api.rest.problems import as_json
from waygraph.api.rest.recorded_calls import RecordedCalls
from waygraph.api.telemetry.audit import Action, Attempt, Audit
from waygraph.api.telemetry.metrics import Metrics
from waygraph.api.telemetry.request_log import note_caller
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.access.authenticator import Authenticator, FailureLimit, RateLimit
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.catalog.find import judging, refusals
from waygraph.registry.model import errors
from waygraph.registry.model.changes import SourceSummary, Status
from waygraph.registry.model.nouns import Agent, Principal, ToolMatch
from waygraph.registry.model.process import processors, step_back
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.shapes import TransportFilter
from waygraph.registry.operations.request import Operation
from waygraph.registry.operations.table import OPERATIONS
from waygraph.registry.registry import Registry
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.usage_file import UsageCounter

_WAITING = 8
SMALL_WRITES = 8
"""At once: those that wait for their turn together are published together."""
_TENDING = 2
LARGE_BYTES = 256 * 1024
"""A manifest of more than that has to wait for other large ones, so that no small write waits behind several."""
MOST_LARGE = 16
MOST_SLOW = 8
"""Of each kind: maps to be drawn, sources to be read."""
_LARGE_WAIT_S = 300.0
"""Half of what a client waits for a write (`remote_write_timeout_s`): it is refused before it is given up."""


class SlowLane:
    """Threads for slow work. At most `most` wait for one of them, and nobody is to wait for more than `wait_s`."""

    def __init__(self, name: str, *, threads: int, most: int, wait_s: float) -> None:
        self.wait_s, self._most, self._places = wait_s, most, threading.Semaphore(most)
        self._pool = ThreadPoolExecutor(threads, name, initializer=step_back)

    async def run[T](self, work: Callable[[], T]) -> T:
        """In the context of the request. Work that has begun ends, and its outcome is reported. Raises ServiceBusy for
        what cannot begin.
        """
        if not self._places.acquire(blocking=False):
            raise errors.ServiceBusy(
                f"{self._most} requests like it wait for their turn already, as many as may. Try again."
            )

        def begin() -> T:
            self._places.release()
            return work()

        future = self._pool.submit(copy_context().run, begin)
        future.add_done_callback(self._note_cancelled)
        expiry = asyncio.get_running_loop().call_later(self.wait_s, future.cancel)  # nothing to one that has begun
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the request was cut off
                raise
            raise errors.ServiceBusy(f"requests like it took longer than {self.wait_s:g} s. Try again.") from None
        finally:
            expiry.cancel()
            del future  # its error's traceback holds this frame, and all that was at hand

    def _note_cancelled(self, future: Future[Any]) -> None:
        if future.cancelled():  # before it began
            self._places.release()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Lanes:
    """One pool of threads for each kind of work; within a lane who comes first is served first."""

    def __init__(self, settings: Settings) -> None:
        self._timeout_s, self._closing = settings.request_timeout_s, threading.Event()
        write_wait_s = settings.write_timeout_s
        # More than cores only make each other wait: a route hardly waits for anything but its turn.
        self._asking = ThreadPoolExecutor(settings.service_threads or max(2, processors()), "ask")
        self._waiting = ThreadPoolExecutor(_WAITING, "wait")
        self._writing = SlowLane("write", threads=SMALL_WRITES, most=64, wait_s=write_wait_s)
        self._large = SlowLane("write-large", threads=1, most=MOST_LARGE, wait_s=max(write_wait_s, _LARGE_WAIT_S))
        self._drawing = SlowLane("draw", threads=2, most=MOST_SLOW, wait_s=self._timeout_s)
        self._syncing = SlowLane("sync", threads=2, most=MOST_SLOW, wait_s=_LARGE_WAIT_S)
        self._tending = ThreadPoolExecutor(_TENDING, "tend")

    async def ask[T](self, work: Callable[[], T]) -> T:
        """Quick work over what is published: routes, lists. Raises TimeoutError for one that takes too long."""
        async with asyncio.timeout(self._timeout_s):
            return await _run_in(self._asking, work)

    async def wait[T](self, work: Callable[[], T]) -> T:
        """Work with limits of time of its own, which mostly waits: a typed statement, an issuer, an export."""
        return await _run_in(self._waiting, work)

    async def draw[T](self, work: Callable[[], T]) -> T:
        """A picture of the whole, which takes seconds of work. Raises ServiceBusy."""
        return await self._drawing.run(work)

    async def sync[T](self, work: Callable[[], T]) -> T:
        """A source that is read now, which may take minutes until it writes. Raises ServiceBusy."""
        return await self._syncing.run(work)

    async def tend[T](self, work: Callable[[], T]) -> T:
        """What those ask who look after the service: whether it is ready, its numbers."""
        return await _run_in(self._tending, work)

    def write_lane(self, size_bytes: int) -> SlowLane:
        """For a request of that size."""
        return self._large if size_bytes > LARGE_BYTES else self._writing

    async def write[T](self, work: Callable[[], T], size_bytes: int = 0) -> T:
        """Raises ServiceBusy for one that cannot begin."""
        return await self.write_lane(size_bytes).run(work)

    def go_on(self, count: int, total: int) -> None:  # noqa: ARG002 - it is called with how far a write is
        """To be called while a write may still be given up. Raises ServiceStopping once the lanes close."""
        if self._closing.is_set():
            raise errors.ServiceStopping

    def close(self) -> None:
        """Waits for what was begun and asks no more whether to `go_on`; what was not begun is dropped."""
        self._closing.set()
        for pool in (self._asking, self._waiting, self._tending):
            pool.shutdown(cancel_futures=True)
        for lane in (self._drawing, self._syncing, self._large, self._writing):
            lane.close()


async def _run_in[T](pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """In the context of the request: its id is on what the work logs."""
    return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, work)


def report_line(details: Mapping[str, object]) -> str:
    """JSON. What is short comes first, so that no number of tags hides who may see an agent."""
    parts = sorted((json.dumps({name: value}, ensure_ascii=False)[1:-1] for name, value in details.items()), key=len)
    return f"{{{', '.join(parts)}}}" if parts else ""


CALLER_KEY = "waygraph.caller"
STRANGER = Caller(id="anonymous", scopes=frozenset(), principal=Principal())


class Readiness:
    """Whether index and model are loaded, and the registry and the keys can be read. Threads may share it."""

    def __init__(self, registry: "LocalRegistry", keys: "KeyFile | None") -> None:
        self._registry, self._keys, self._lock, self._loaded = registry, keys, Lock(), False

    def hindrance(self) -> errors.WaygraphError | None:
        """Why the service is not ready; None if it is. Without a registry it can be written to, and answers nothing."""
        try:
            if self._keys:
                self._keys.list()
            if self._loaded:
                _ = self._registry.stamp  # what was loaded may be gone, and a database away
            else:
                with self._lock:
                    if not self._loaded:
                        self._registry.route("are you ready")
                        self._loaded = True
        except errors.WaygraphError as error:
            return error
        return None


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
    sessions: "BrowserSessions"
    usage: "UsageCounter | None"
    recorded_calls: RecordedCalls = field(default_factory=RecordedCalls)

    async def caller(self, request: Request) -> Caller:
        """As `caller_at_endpoint`. Raises NotAllowed for one that is kept to a toolset's endpoint of MCP."""
        caller = await self.caller_at_endpoint(request)
        if caller.toolset:
            raise errors.NotAllowed(f"this key is for the toolset {caller.toolset!r} alone, at /{caller.toolset}/mcp")
        return caller

    async def caller_at_endpoint(self, request: Request) -> Caller:
        """Who calls, counted against its limit. Raises NotAuthenticated, TooManyRequests."""
        caller = await self.admit(request)
        self.count(caller)
        return caller

    def count(self, caller: Caller) -> None:
        """One request more of this caller. Raises TooManyRequests. Where nobody is told apart nobody is limited."""
        if self.authenticator is not None:
            self.requests.take(caller.id)

    async def caller_or_stranger(self, request: Request) -> Caller:
        """The same, where those may ask too who show nothing: they may do nothing else."""
        shows_nothing = not {"authorization", "x-api-key"} & set(request.headers.keys())
        return STRANGER if self.authenticator and shows_nothing else await self.caller(request)

    async def admit(self, request: Request) -> Caller:
        """Who calls, which is asked once of a request, and before its body is read. Raises as `caller`."""
        caller: Caller | None = request.scope.get(CALLER_KEY)
        if caller is None:
            caller = LOCAL if self.authenticator is None else await self._authenticate(self.authenticator, request)
            request.scope[CALLER_KEY] = caller
            note_caller(request.scope, caller)
        return caller

    async def _authenticate(self, authenticator: "Authenticator", request: Request) -> Caller:
        credentials = request.headers.get("authorization"), request.headers.get("x-api-key")
        try:
            caller = authenticator.known_caller(*credentials)
            return caller if caller else await self.lanes.wait(lambda: authenticator.caller(*credentials))
        except (errors.NotAuthenticated, errors.IssuerUnavailable):
            self.failures.count_failure(request.client.host if request.client else "")
            raise


ANY = "*"
"""In place of tags (RFC 9110, 13.1.2): whichever there is."""
NO_GATEWAY = "this service offers no gateway (--no-mcp)"
_VERSION = version("waygraph")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request for an operation, and in whose name it is answered."""

    operation: Operation
    request: Request
    service: Service
    caller: Caller

    @property
    def registry(self) -> "Registry":
        return self.service.registry

    @property
    def principal(self) -> Principal | None:
        return self.caller.principal

    @property
    def transport_filter(self) -> TransportFilter:
        return self.caller.transport_filter

    @property
    def base_url(self) -> str:
        """The address of the service, as callers know it."""
        return (self.service.settings.public_url or str(self.request.base_url)).rstrip("/")

    @cached_property
    def sources(self) -> "list[SourceSummary]":
        return self.registry.sources(principal=self.principal)

    @cached_property
    def status(self) -> "Status":
        return self.registry.status(principal=self.principal)

    @property
    def why_not(self) -> "Callable[[Agent], str]":
        """Why nothing here runs an agent's tools; empty: a call can be tried."""
        gateway = self.request.app.state.gateway
        return (lambda _: NO_GATEWAY) if gateway is None else gateway.reach.now().why_not

    @cached_property
    def refusal(self) -> "Callable[[ToolMatch], str]":
        """Why the caller cannot call a tool by name; empty: a call can be tried."""
        gateway = self.request.app.state.gateway
        policy = None if gateway is None else gateway.policy
        return refusals(judging(self.registry, policy, self.principal), self.why_not)

    @contextmanager
    def attempt(self, action: Action, target: str, **details: Any) -> Iterator[Attempt]:
        """In the audit whatever becomes of it, also if the caller lacks the scope. `details`: as `Audit.attempt`."""
        with self.service.audit.attempt(self.caller, action, target, **details) as attempt:
            if self.operation.scope:
                self.caller.require(self.operation.scope)
            yield attempt

    async def unless_known(
        self, shape: Callable[[], object], stamp: "Stamp | None" = None, *, lane: "Lane" = Lanes.ask
    ) -> Response:
        """304 if the caller has the answer of this revision, or any (`*`); else `shape` as JSON, with the revision's
        ETag.

        The revision is read before the answer is made: at worst an answer is newer than its tag. `stamp`: of an answer
        that tells more than a revision does. `lane`: where it is made.
        """
        lanes = self.service.lanes
        tag = etag(await lanes.ask(lambda: stamp(self) if stamp else self.registry.stamp), self.caller)
        headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, X-API-Key"}
        tags = {each.strip().removeprefix("W/") for each in self.request.headers.get("if-none-match", "").split(",")}
        if tag in tags:
            return Response(status_code=304, headers=headers)
        response = await lane(lanes, lambda: self.as_json(shape(), headers))
        # Whether there is any answer is known when it is made.
        return Response(status_code=304, headers=headers) if tags == {ANY} else response

    def as_json(self, shape: object, headers: dict[str, str] | None = None) -> Response:
        return as_json(shape, headers, media_type=self.operation.media_types[0])


def etag(stamp: str, caller: Caller) -> str:
    """Strong: of this revision, as whoever sees the same as the caller gets it from this version of Waygraph."""
    sees = "all"
    if "read" not in caller.scopes:
        sees = "nothing"
    elif caller.principal is not None:
        sees = "\n".join(("groups", *sorted(set(caller.principal.groups))))
    if "admin" in caller.scopes:
        sees += "\nadmin"
    return f'"{sha256("\x00".join((stamp, sees, _VERSION)).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


type Handler = Callable[..., Any]
type Stamp = Callable[[Exchange], str]
type Lane = Callable[[Lanes, Callable[[], Response]], Awaitable[Response]]
ENDPOINTS: dict[str, Handler] = {}
"""By operation."""


def handles[H: Handler](
    operation: Operation, *, lane: Lane | None = None, stamp: Stamp | None = None
) -> Callable[[H], H]:
    """Makes a function the handler of an operation: of an `Exchange` and the parts of the request.

    A plain function returns the answer's JSON, and works in a lane: `lane`, or that of writes or of questions. A
    coroutine function returns the response. `stamp`: as `Exchange.unless_known` takes it.
    """

    own_lane = lane or (Lanes.write if operation.is_write else Lanes.ask)

    def bind(handler: H) -> H:
        is_coroutine = iscoroutinefunction(handler)

        @wraps(handler)
        async def endpoint(exchange: Exchange, **parts: Any) -> Response:
            if is_coroutine:
                response: Response = await handler(exchange, **parts)
                return response
            if operation.is_conditional:
                return await exchange.unless_known(lambda: handler(exchange, **parts), stamp, lane=own_lane)
            return await own_lane(exchange.service.lanes, lambda: exchange.as_json(handler(exchange, **parts)))

        first, *others = signature(handler).parameters.values()
        first = first.replace(annotation=Annotated[Exchange, Depends(_exchange_of(operation))])
        vars(endpoint)["__signature__"] = signature(handler).replace(parameters=[first, *others])
        ENDPOINTS[operation.name] = endpoint
        return handler

    return bind


def _exchange_of(operation: Operation) -> Callable[[Request], Awaitable[Exchange]]:
    """Raises NotAuthenticated, NotAllowed, TooManyRequests; NotAllowed later where the audit is to have the refusal."""
    asks_scope_now = not (operation.is_write or operation.is_recorded)

    async def exchange(request: Request) -> Exchange:
        service: Service = request.app.state.service
        if operation.is_write:  # also where nobody is asked who they are: a page of elsewhere has no say
            refuse_foreign(request, service.settings.welcome_origins)
        if operation.scope is None:
            caller = STRANGER if operation.tag == "health" else await service.caller_or_stranger(request)
        else:
            caller = await service.caller(request)
            if asks_scope_now:
                caller.require(operation.scope)
        return Exchange(operation=operation, request=request, service=service, caller=caller)

    return exchange


@cache
def router() -> APIRouter:
    """Every operation at its path. Raises KeyError for one without a handler.

    Searches come first: a request is compared with each path before its own.
    """
    router = APIRouter()
    for operation in sorted(OPERATIONS.values(), key=lambda each: (each.tag != "search", each.path)):
        endpoint = ENDPOINTS[operation.name]
        router.add_api_route(operation.path, endpoint, **describe(operation))
        if operation.method == "GET":  # the server leaves the content out
            router.add_api_route(
                operation.path, endpoint, methods=["HEAD"], response_model=None, include_in_schema=False
            )
    return router
