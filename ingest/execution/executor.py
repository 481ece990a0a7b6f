"""`Executor`: every call of a process goes through it, to whatever runs tools of this kind of agent."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import replace
from math import inf
from typing import Any

import anyio
from anyio import to_thread

from waygraph.ingest.execution.call import STOPPING, ToolCall, ToolCaller
from waygraph.ingest.execution.launches import Launches
from waygraph.ingest.execution.pool import Pool, calling_pool
from waygraph.ingest.execution.services import Configured, Services, load_services
from waygraph.ingest.execution.web_request import Web
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import VouchedFile, vouched_file
from waygraph.ingest.upstream.connection import ANSWER_S, Host, MayHaveRun, Question, Result, Through
from waygraph.registry.model.errors import (
    CallTimedOut,
    NotCallable,
    UpstreamAnswered,
    UpstreamError,
    UpstreamUnreachable,
)
from waygraph.registry.model.nouns import Agent, AgentKind
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

# A person is given time to think: what a question takes does not count to the deadline of its call.


class Unhurried(Through):
    """The host of one call, whose deadline is that of `scope`. Equal where the hosts are."""

    def __init__(self, host: Host, scope: anyio.CancelScope) -> None:
        super().__init__(host)
        self._scope = scope

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked_at = anyio.current_time()
        self._scope.deadline += ANSWER_S
        try:
            return await super().ask(question, params)
        finally:
            self._scope.deadline -= ANSWER_S - (anyio.current_time() - asked_at)


# Tools of MCP servers are run over the pool's connections.


class McpCaller:
    """A `ToolCaller` for agents that are MCP servers. It lives as long as its pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. A server that is being started is started also without a call that was given up."""
        try:
            return await self._pool.call(
                call.agent,
                call.tool.name,
                call.arguments,
                host=call.host,
                timeout_s=inf,  # the deadline is kept by whoever hands out the calls
                input_schema=call.tool.input_schema,
            )
        except NotCallable as refusal:  # of its server, whichever tool was asked for
            raise NotCallable(call.name, refusal.reason, how=refusal.how) from None


CLOSE_S = 2.0
"""So long may closing take, whatever is under way."""


class Executor:
    """Implements ToolCaller. Opened by `open_executor`; when it closes, calls under way end with an error.

    At most `calls_at_once` calls are under way, and of one agent, or of one caller who is told apart, half of them: who
    has calls that hang leaves room for others.
    The wait for a place counts to a call's deadline.
    """

    def __init__(self, ways: Mapping[AgentKind, ToolCaller], calls_at_once: int) -> None:
        self._ways = ways
        self._places = anyio.CapacityLimiter(calls_at_once)
        half = max(1, calls_at_once // 2)
        self._of_agents, self._of_callers = _PlacesByName(half), _PlacesByName(half)
        self._under_way = set[anyio.CancelScope]()
        self._closed = False

    async def call(self, call: ToolCall) -> Result:
        """Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol."""
        way = self._way(call)
        with anyio.move_on_after(call.deadline_s) as scope, self._cancelling(scope):
            async with self._place_of_caller(call), self._of_agents.place(call.agent.id), _place(self._places):
                with _naming(call.agent):
                    return await way.call(replace(call, host=Unhurried(call.host, scope)))
        if self._closed:
            raise MayHaveRun(STOPPING)
        raise CallTimedOut(call.name, call.deadline_s)

    def _place_of_caller(self, call: ToolCall) -> AbstractAsyncContextManager[None]:
        return self._of_callers.place(call.caller) if call.caller else nullcontext()

    def _way(self, call: ToolCall) -> ToolCaller:
        if way := self._ways.get(call.agent.kind):
            return way
        raise NotCallable(
            call.name,
            f"nothing here runs tools of a {call.agent.kind} agent. {call.agent.name!r} is listed so that it is found; "
            "use it where it runs",
        )

    @contextmanager
    def _cancelling(self, scope: anyio.CancelScope) -> Iterator[None]:
        """Ends it when the executor closes."""
        if self._closed:
            raise UpstreamUnreachable(STOPPING)
        self._under_way.add(scope)
        try:
            yield
        finally:
            self._under_way.discard(scope)

    def close(self) -> None:
        """Calls under way end, and none begins any more."""
        self._closed = True
        for scope in self._under_way:
            scope.cancel()


@asynccontextmanager
async def _place(limit: anyio.CapacityLimiter) -> AsyncGenerator[None]:
    """One for each call, also for one that is made on behalf of another, in its task."""
    borrower = object()
    try:
        limit.acquire_on_behalf_of_nowait(borrower)  # where there is room, no turn of the loop is spent on it
    except anyio.WouldBlock:
        await limit.acquire_on_behalf_of(borrower)
    try:
        yield
    finally:
        limit.release_on_behalf_of(borrower)


@contextmanager
def _naming(agent: Agent) -> Iterator[None]:
    """A reason alone does not say whose it is; one who calls many servers has to be told. A server's own words stay."""
    try:
        yield
    except UpstreamAnswered:
        raise
    except UpstreamError as error:
        raise error.again(f"{agent.id}: {error.reason}") from error


class _PlacesByName:
    """A limit for each name that has calls under way or waiting, and for no other."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._limits: dict[str, tuple[anyio.CapacityLimiter, int]] = {}

    @asynccontextmanager
    async def place(self, name: str) -> AsyncGenerator[None]:
        limit, users = self._limits.get(name) or (anyio.CapacityLimiter(self._each), 0)
        self._limits[name] = limit, users + 1
        try:
            async with _place(limit):
                yield
        finally:
            limit, users = self._limits.pop(name)
            if users > 1:
                self._limits[name] = limit, users - 1


class _OnFirstCall:
    """A way that is made by its first call, in a thread: neither a gateway's start nor other calls wait for what it
    imports.
    """

    def __init__(self, make: Callable[[], ToolCaller]) -> None:
        self._make = make
        self._making = anyio.Lock()
        self._way: ToolCaller | None = None

    async def call(self, call: ToolCall) -> Result:
        way = self._way or await self._make_caller()
        return await way.call(call)

    async def _make_caller(self) -> ToolCaller:
        async with self._making:
            if self._way is None:
                self._way = await to_thread.run_sync(self._make, abandon_on_cancel=True)
            return self._way


def _a2a(configured: Configured, vouched: VouchedFile, web: Web) -> ToolCaller:
    from waygraph.ingest.execution.call_a2a import A2aCaller

    return A2aCaller(configured=configured, vouched=vouched, web=web)


def _openapi(configured: Configured, web: Web, settings: Settings) -> ToolCaller:
    from waygraph.ingest.execution.call_openapi import OpenApiCaller

    return OpenApiCaller(configured=configured, web=web, settings=settings)


def _skill(registry: Registry, vouched: VouchedFile) -> ToolCaller:
    from waygraph.ingest.execution.call_skill import SkillTexts

    return SkillTexts(registry=registry, vouched=vouched)


@asynccontextmanager
async def open_executor(
    registry: Registry, settings: Settings, surroundings: Surroundings, *, services: Services | None = None
) -> AsyncGenerator[Executor]:
    """What runs the tools of a registry. It is closed within `CLOSE_S`, with every process that it started.

    `surroundings`: the environment by which references of launches and services are resolved, when they are needed.
    `services`: by default those of the settings' file. Raises InvalidSetting if it cannot be read.
    """
    if services is None:
        services = load_services(settings.services_file)
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(aclosing(Web(settings)))
        vouched = vouched_file(settings.data_path)
        launches = Launches(registry=registry, settings=settings, surroundings=surroundings, vouched=vouched)
        pool = await stack.enter_async_context(calling_pool(launches.fresh, settings))
        configured = Configured(registry=registry, services=services, surroundings=surroundings)
        ways: dict[AgentKind, ToolCaller] = {
            "mcp_server": McpCaller(pool),
            "a2a_agent": _OnFirstCall(lambda: _a2a(configured, vouched, web)),
            "openapi": _OnFirstCall(lambda: _openapi(configured, web, settings)),
            "skill": _OnFirstCall(lambda: _skill(registry, vouched)),
        }
        executor = Executor(ways, settings.calls_at_once)
        stack.callback(executor.close)
        yield executor
