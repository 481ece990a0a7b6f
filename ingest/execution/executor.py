"""`Executor`: every call of a process goes through it, to whatever runs tools of this kind of agent."""

import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import anyio
import httpx2
from anyio import to_thread
from cachetools import FIFOCache, TTLCache

from waygraph.ingest.execution.call import STOPPING, ToolCall, ToolCaller, Web
from waygraph.ingest.execution.pool import MOST_AGENTS, Pool, calling_pool
from waygraph.ingest.execution.services import (
    TO_DO,
    ServiceFinder,
    Services,
    SourceClaim,
    claims_on,
    load_services,
    servers_vouched_for,
    why_no_server,
)
from waygraph.ingest.logins.callers import OwnLogins, TokenExchange
from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.own_gateway import LEFT_OUT, launches_gateway
from waygraph.ingest.manifest.records import HttpLaunch, Launch, Refusal, StdioLaunch
from waygraph.ingest.manifest.redaction import Discretion
from waygraph.ingest.manifest.trust_store import VouchedFile, VouchedServer, launch_in, vouched_file
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.ingest.upstream.box import Grant, profile_of, with_grants
from waygraph.ingest.upstream.connection import ANSWER_S, Host, MayHaveRun, Question, Result, Through
from waygraph.registry.model.changes import plain_key
from waygraph.registry.model.errors import (
    CallTimedOut,
    LoginsUnusable,
    NotCallable,
    SourceError,
    UpstreamAnswered,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnreachable,
)
from waygraph.registry.model.nouns import Agent, AgentKind
from waygraph.registry.model.numbers import FAR_S
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry, is_remote, require_local
from waygraph.registry.storage.local_registry import LocalRegistry

_log = logging.getLogger("waygraph.gateway")

# A person is given time to think: what a question takes does not count to the deadline of its call.


class PatientHost(Through):
    """The host of one call, whose deadline is that of `scope`. Equal where the hosts are."""

    def __init__(self, host: Host, scope: anyio.CancelScope) -> None:
        super().__init__(host)
        self._scope = scope

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        start_s = anyio.current_time()
        self._scope.deadline += ANSWER_S
        try:
            return await super().ask(question, params)
        finally:
            self._scope.deadline -= ANSWER_S - (anyio.current_time() - start_s)


class McpCaller:
    """A `ToolCaller` for agents that are MCP servers. It lives as long as its pool."""

    def __init__(self, pool: Pool, logins: OwnLogins | None = None) -> None:
        self.pool, self._logins = pool, logins

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. A server that is being started is started also without a call that was given up."""
        acting = self._logins.acting(call) if self._logins else None
        try:
            return await self.pool.call(call, acting)
        except UpstreamRefused as refusal:
            if acting is not None and not isinstance(refusal, UpstreamAnswered):
                await acting.check(refusal)  # it may have refused a login that has ended
            raise
        except NotCallable as refusal:  # of its server, whichever tool was asked for
            raise NotCallable(call.name, refusal.reason, how=refusal.how) from None


REST_AFTER = 5
"""Calls of one caller that fail in a row: then the server rests for them."""
MOST_FAILURES = REST_AFTER + 6
"""That count: so many rests double up to the longest, and at most so many calls come back one by one."""
FIRST_REST_S, LONGEST_REST_S = 5.0, 300.0
"""Doubled with each failure."""


@dataclass(slots=True)
class _Rest:
    failure_count: int = 0
    until_s: float = 0.0


class Breaker:
    """Lets servers rest whose calls fail in a row: a circuit breaker (Nygard, "Release It!", 2007), for each caller
    alone, since one who sends what a server cannot bear must not close it to others.

    A call fails that gets no answer in its full time, or whose server is lost meanwhile. After a rest one call tries,
    and while calls go well, one at a time, each takes one failure back: below REST_AFTER all are let through.
    """

    def __init__(self, full_s: float) -> None:
        self._full_s, self._rests = full_s, FIFOCache[tuple[str, str], _Rest](MOST_AGENTS)

    @contextmanager
    def watch(self, call: ToolCall) -> Iterator[None]:
        """Raises UpstreamUnreachable while the server rests."""
        key = call.agent.id, call.caller
        rest, now_s = self._rests.get(key) or _Rest(), anyio.current_time()
        if (left_s := rest.until_s - now_s) > 0:
            raise UpstreamUnreachable(f"{rest.failure_count} calls in a row failed; asked again after {left_s:.0f} s")
        if rest.failure_count >= REST_AFTER:
            rest.until_s = now_s + FIRST_REST_S
        try:
            yield
            self._note_answer(key, rest)
        except (CallTimedOut, MayHaveRun) as error:
            if isinstance(error, MayHaveRun) or call.deadline_s >= self._full_s:
                rest.failure_count = min(rest.failure_count + 1, MOST_FAILURES)
                over = rest.failure_count - REST_AFTER
                rest_s = min(FIRST_REST_S * 2**over, LONGEST_REST_S) if over >= 0 else 0.0
                rest.until_s, self._rests[key] = anyio.current_time() + rest_s, rest
            raise
        except UpstreamAnswered:
            self._note_answer(key, rest)
            raise

    def _note_answer(self, key: tuple[str, str], rest: _Rest) -> None:
        if rest.failure_count <= REST_AFTER:
            self._rests.pop(key, None)
        else:
            rest.failure_count, rest.until_s = rest.failure_count - 1, 0.0


class Executor:
    """Implements ToolCaller. Opened by `open_executor`; when it closes, calls under way end with an error.

    At most `calls_at_once` calls are under way, and of one agent, or of one caller who is told apart, half of them: who
    has calls that hang leaves room for others.
    The wait for a place counts to a call's deadline.
    """

    def __init__(
        self,
        ways: Mapping[AgentKind, ToolCaller],
        calls_at_once: int,
        logins: OwnLogins | None = None,
        *,
        pool: Pool | None = None,
        full_s: float = FAR_S,
    ) -> None:
        self._ways, self.logins, self._pool = ways, logins, pool
        self._breaker = Breaker(full_s)
        self._places = anyio.Semaphore(calls_at_once, fast_acquire=True)  # no turn of the loop where there is room
        half = max(1, calls_at_once // 2)
        self._of_agents, self._of_callers = PlacesByName(half), PlacesByName(half)
        self._under_way = set[anyio.CancelScope]()
        self._closed = False

    async def call(self, call: ToolCall) -> Result:
        """Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol."""
        way = self._way(call)
        with _naming(call.agent), self._breaker.watch(call):
            with anyio.move_on_after(call.deadline_s) as scope, self._cancelling(scope):
                of_caller = self._of_callers.place(call.caller) if call.caller else nullcontext()
                async with of_caller, self._of_agents.place(call.agent.id), self._places:
                    return await way.call(replace(call, host=PatientHost(call.host, scope)))
            if self._closed:
                raise MayHaveRun(STOPPING)
            raise CallTimedOut(call.name, call.deadline_s)

    @property
    def open_servers(self) -> frozenset[str]:
        """Ids of the agents whose server runs."""
        return self._pool.open if self._pool else frozenset()

    def take_changes(self) -> bool:
        """Whether a server has told since the last look that a list of its has changed."""
        return self._pool is not None and self._pool.take_changes()

    def _way(self, call: ToolCall) -> ToolCaller:
        if call.agent.kind != "mcp_server" and self.logins and self.logins.rule(call.agent.id):
            raise NotCallable(call.name, f"[[login]] is for MCP servers, and {call.agent.id!r} is none")
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


@contextmanager
def _naming(agent: Agent) -> Iterator[None]:
    """A reason alone does not say whose it is; one who calls many servers has to be told. A server's own words stay."""
    try:
        yield
    except UpstreamAnswered:
        raise
    except UpstreamError as error:
        raise error.again(f"{agent.id}: {error.reason}") from error


class PlacesByName:
    """A limit for each name that has calls under way or waiting, and for no other."""

    def __init__(self, each: int) -> None:
        self._each, self._limits = each, WeakValueDictionary[str, anyio.Semaphore]()

    def place(self, name: str) -> anyio.Semaphore:
        """To be entered, and held no longer than that."""
        return self._limits.setdefault(name, anyio.Semaphore(self._each, fast_acquire=True))


class _OnFirstCall:
    """A way that is made by its first call, in a thread: neither a gateway's start nor other calls wait for what it
    imports.
    """

    def __init__(self, make: Callable[[], ToolCaller]) -> None:
        self._make = make
        self._way: ToolCaller | None = None

    async def call(self, call: ToolCall) -> Result:
        if self._way is None:  # of calls that come together each may make one: it holds nothing
            self._way = await to_thread.run_sync(self._make, abandon_on_cancel=True)
        return await self._way.call(call)


def _a2a(finder: ServiceFinder, trust_file: VouchedFile, web: Web) -> ToolCaller:
    from waygraph.ingest.execution.call_a2a import A2aCaller

    return A2aCaller(finder=finder, trust_file=trust_file, web=web)


def _openapi(finder: ServiceFinder, web: Web, settings: Settings) -> ToolCaller:
    from waygraph.ingest.execution.call_openapi import OpenApiCaller

    return OpenApiCaller(finder=finder, web=web, settings=settings)


def _skill(registry: LocalRegistry, trust_file: VouchedFile, servers: ToolCaller) -> ToolCaller:
    from waygraph.ingest.execution.call_skill import SkillTexts

    return SkillTexts(registry=registry, trust_file=trust_file, servers=servers)


@asynccontextmanager
async def open_executor(
    registry: Registry, settings: Settings, surroundings: Surroundings, *, services: Services | None = None
) -> AsyncGenerator[Executor]:
    """What runs the tools of a registry. It is closed within 2 s, with every process that it started.

    `surroundings`: the environment by which references of launches and services are resolved, when they are needed.
    `services`: by default those of the settings' file. Raises InvalidSetting if it cannot be read, NeedsRegistry.
    """
    registry = require_local(registry)
    if services is None:
        services = load_services(settings.services_file)
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(aclosing(Web(settings)))
        launches = Launches.of_registry(registry, settings, surroundings)
        trust_file = launches.trust_file
        finder = ServiceFinder(registry=registry, services=services, surroundings=surroundings)
        logins = OwnLogins(
            rules=services.logins,
            place=services.place,
            settings=settings,
            surroundings=surroundings,
            launches=launches.fresh,
            exchange=TokenExchange(web.post, settings.upstream_connect_timeout_s),
            open_client=_login_client,
        )
        await to_thread.run_sync(_warn_without_key, logins)
        pool = await stack.enter_async_context(calling_pool(logins.operator_launch, settings))
        servers = McpCaller(pool, logins)
        ways: dict[AgentKind, ToolCaller] = {
            "mcp_server": servers,
            "a2a_agent": _OnFirstCall(lambda: _a2a(finder, trust_file, web)),
            "openapi": _OnFirstCall(lambda: _openapi(finder, web, settings)),
            "skill": _OnFirstCall(lambda: _skill(registry, trust_file, servers)),
        }
        executor = Executor(ways, settings.calls_at_once, logins, pool=pool, full_s=settings.call_timeout_s)
        stack.callback(executor.close)
        yield executor


def _login_client(
    launch: HttpLaunch, settings: Settings, discretion: Discretion, auth: httpx2.Auth | None
) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    from waygraph.ingest.upstream.http import login_client  # imports the SDK

    return login_client(launch, settings, discretion, auth)


def _warn_without_key(logins: OwnLogins) -> None:
    if agents := [rule.agent for rule in logins.rules if rule.takes_login]:
        try:
            logins.file.check_key()
        except LoginsUnusable as fault:
            _log.warning("nobody can log in at %s: %s", ", ".join(agents), fault)


FRESH_S = 1.0
"""So long a launch counts as it was found: calls that come one after the other do not each read files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Launches of the agents of a registry. `surroundings` resolve references at each launch."""

    registry: LocalRegistry
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    trust_file: VouchedFile
    _launches: TTLCache[tuple[str, str], Launch] = field(
        default_factory=lambda: TTLCache(MOST_AGENTS, FRESH_S, anyio.current_time), repr=False
    )
    """By id and transport of agents."""

    @staticmethod
    def of_registry(registry: LocalRegistry, settings: Settings, surroundings: Surroundings) -> "Launches":
        file = vouched_file(settings.data_path, registry.store.place)
        return Launches(registry=registry, settings=settings, surroundings=surroundings, trust_file=file)

    async def fresh(self, agent: Agent) -> Launch:
        """As it was at most FRESH_S ago. Raises as `of`."""
        key = agent.id, agent.transport
        if (launch := self._launches.get(key)) is None:
            launch = self._launches[key] = await to_thread.run_sync(self.of, agent, abandon_on_cancel=True)
        return launch

    def of(self, agent: Agent) -> Launch:
        """Reads files, and on a server the database.

        Raises NotCallable, whose text holds names of variables and no value; RegistryError, StorageFailed.
        """
        claims = claims_on(self.registry, agent.id)
        faults: list[str] = []
        for claim, server in servers_vouched_for(self.trust_file, claims, agent):
            try:
                launch = self._launch(claim, server, agent)
                # Read only of one that is boxed: on a server the settings are a query of the database.
                read_setting = partial(self.registry.store.look, lambda index: index.settings().get(agent.id))
                return with_grants(launch, self.settings, claim.source, claim.key, read_setting)
            except (Faulty, SourceError, Refusal) as fault:
                faults.append(str(fault))  # another source may name the same server, and be as it was
        if faults:
            raise NotCallable(agent.id, f"its server cannot be started or reached: {'; '.join(faults)}")
        reason = why_no_server(claims)
        raise NotCallable(agent.id, f"{reason}; {TO_DO[reason]}")

    def _launch(self, claim: SourceClaim, server: VouchedServer, agent: Agent) -> Launch:
        """Raises Faulty, SourceError, Refusal."""
        from waygraph.ingest.sources.formats.configured_server import launch_of, read_server

        around = replace(self.surroundings, cwd=server.folder or self.surroundings.cwd)
        if server.config:
            launch = self._from_config(claim, server, around)
        else:
            launch = launch_of(read_server(json.loads(agent.transport)), Scope(surroundings=around))
        if launches_gateway(launch):
            raise Faulty(LEFT_OUT)
        if isinstance(launch, HttpLaunch):
            return replace(launch, public=server.public, oauth=launch.oauth or server.oauth)
        return launch_in(launch, server.folder)

    def _from_config(self, claim: SourceClaim, server: VouchedServer, around: Surroundings) -> Launch:
        """The graph holds references in place of its values; the config has them."""
        from waygraph.ingest.sources.formats.mcp_config import config_entry

        entry = config_entry(server.config, plain_key(claim.key), self.settings, around)
        if self.trust_file.digest_of(entry.launch_text) == server.written:
            return entry.launch
        reason = f"server {claim.key!r} is another than was ingested: look at it, and run `waygraph ingest` again"
        raise SourceError(server.config, reason)


def profile_here(registry: Registry, agent: Agent, environ: Mapping[str, str]) -> Sequence[Grant]:
    """What an agent's server may do when it is started on this machine; empty: nothing confines it, or it is not."""
    if is_remote(registry) or agent.kind != "mcp_server":
        return ()
    launches = Launches.of_registry(require_local(registry), registry.settings, Surroundings.here(environ))
    with suppress(NotCallable, UpstreamRefused, FileNotFoundError):
        if isinstance(launch := launches.of(agent), StdioLaunch):
            return profile_of(launch, environ, registry.settings) or ()
    return ()
