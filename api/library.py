"""Waygraph in a Python program: a registry that also runs its tools, by the rules of the gateway; sync and async."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CapacityLimiter, to_thread

import waygraph.registry.registry as core
import waygraph.registry.storage.local_registry as local
from waygraph.ingest.execution.services import Reach, load_services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.registry.access.policy import CallPolicy, load_policy
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.catalog.find import judging, rank_tools, refusals
from waygraph.registry.model.nouns import Principal, Query
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tool_calls import RankedTool, RankedTools, ToolName, ToolResult, name_of
from waygraph.registry.operations.operator import AsyncOperator, in_thread
from waygraph.registry.operations.request import Request
from waygraph.registry.remote import remote_registry
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe
from waygraph.registry.storage.location import is_service, named_place

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from waygraph.api.mcp.gateway import Gateway
    from waygraph.api.mcp.sessions import Session
    from waygraph.ingest.pipeline import SourceInput
    from waygraph.registry.model.changes import SyncReport

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
AT_ONCE = 40
"""Methods of one asynchronous registry that are under way at a time; others wait. Calls of tools are not counted."""


class Registry(core.Registry, Protocol):
    """Agents and their tools: found, called, and kept up to date. Threads may share one.

    `with` closes it; `async with` gives the same methods to await (AsyncRegistry).
    """

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Registry":
        """A registry in a file, in memory (`:memory:`), on a server (`neo4j://host`) or at a service (`https://host`).

        Parameters and errors: those of `waygraph.registry.Registry.open`.
        """
        kind = RemoteRegistry if is_service(named_place(location)) else LocalRegistry
        return kind.open(location, embedder=embedder, settings=settings, environ=environ)

    def find(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> RankedTools:
        """As `find_tools`; each tool says whether it can run, and why not (`cannot_run`)."""
        ...

    def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
        *,
        timeout_s: float | None = None,
        consent: str = "",
        for_model: bool = False,
        principal: Principal | None = None,
    ) -> ToolResult:
        """Runs a tool, by the policy, the checks of arguments and the audit that hold for hosts.

        `consent`: the `content_hash` of the tool, where a person agreed to run it with these arguments. `for_model`:
        the result is cut to what a model can read (`call_result_tokens`).
        Raises NotCallable (NeedsConsent, NeedsLogin among them), InvalidArguments, UnknownName, CallTimedOut,
        UpstreamError. A tool that ran and failed is a result with `is_error`.
        """
        ...

    async def __aenter__(self) -> "AsyncRegistry": ...

    async def __aexit__(self, *_: object) -> None: ...


class RemoteRegistry(remote_registry.RemoteRegistry):
    """Implements Registry over a service, whose gateway makes the calls."""

    async def __aenter__(self) -> "AsyncRegistry":
        return AsyncRegistry(self)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


class LocalRegistry(local.LocalRegistry):
    """Implements Registry over a store. What runs tools is opened by the first call, in a thread of its own."""

    __aenter__, __aexit__ = RemoteRegistry.__aenter__, RemoteRegistry.__aexit__

    @cached_property
    def _calls(self) -> "_Calls":
        return _Calls(self, Surroundings.here(self._environ))

    def find(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> RankedTools:
        route = self.find_tools(query, limit=limit, agent_ids=agent_ids, recipe=recipe, principal=principal)
        refusal = refusals(judging(self, self._calls.policy, principal), self._calls.reach.now().why_not)
        tools = (
            RankedTool(tool=each.tool, agent=each.agent, score=each.score, votes=each.votes, cannot_run=refusal(each))
            for each in route.matches
        )
        return rank_tools(tools, route)

    def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
        *,
        timeout_s: float | None = None,
        consent: str = "",
        for_model: bool = False,
        principal: Principal | None = None,
    ) -> ToolResult:
        options: dict[str, Any] = {"timeout_s": timeout_s, "consent": consent, "for_model": for_model}
        future = self.start_call(tool, arguments, **options, principal=principal)
        try:
            return future.result()
        finally:
            future.cancel()  # without effect on one that has ended

    def start_call(
        self, tool: ToolName, arguments: Mapping[str, Any] = NO_ARGUMENTS, **options: Any
    ) -> Future[ToolResult]:
        """A call under way, with the options of `call`. Cancelled, it tells the tool's server."""
        return self._calls.start(name_of(tool), arguments, **options)

    def close(self) -> None:
        self._calls.close()
        super().close()


class _Calls:
    """What judges and runs the tools of one registry, each opened when it is first needed."""

    def __init__(self, registry: LocalRegistry, surroundings: Surroundings) -> None:
        self._registry, self._surroundings = registry, surroundings
        self._lock, self._parts = Lock(), ExitStack()
        self._opened: tuple[BlockingPortal, Gateway, Session] | None = None

    @cached_property
    def policy(self) -> CallPolicy:
        """Raises InvalidSetting, as `reach`."""
        return load_policy(self._registry.settings.policy_file)

    @cached_property
    def reach(self) -> Reach:
        settings, place = self._registry.settings, self._registry.store.place
        return Reach(self._registry, load_services(settings.services_file), vouched_file(settings.data_path, place))

    def start(
        self, name: str, arguments: Mapping[str, Any], *, principal: Principal | None = None, **options: Any
    ) -> Future[ToolResult]:
        from waygraph.api.mcp.calls import call_alone
        from waygraph.api.mcp.sessions import Asker

        portal, gateway, session = self.open()
        caller = LOCAL if principal is None else replace(LOCAL, id=principal.id or LOCAL.id, principal=principal)

        async def call() -> ToolResult:
            asker = Asker(caller=caller, session=session, door="program")
            return ToolResult.read(await call_alone(gateway, asker, name, dict(arguments), **options))

        return portal.start_task_soon(call)

    def open(self) -> "tuple[BlockingPortal, Gateway, Session]":
        """Raises InvalidSetting, RegistryClosed."""
        from anyio.from_thread import start_blocking_portal

        from waygraph.api.mcp.gateway import open_gateway, read_parts
        from waygraph.api.mcp.sessions import Asker, Session

        with self._lock:
            if self._opened is None:
                parts = read_parts(self._registry, self._registry.settings, self._surroundings)
                session = Session()
                with ExitStack() as stack:
                    stack.callback(parts.audit.close)
                    portal = stack.enter_context(start_blocking_portal())
                    opening = open_gateway(parts, lambda _: Asker(caller=LOCAL, session=session))
                    gateway = stack.enter_context(portal.wrap_async_context_manager(opening))
                    self._parts, self._opened = stack.pop_all(), (portal, gateway, session)
            return self._opened

    def close(self) -> None:
        with self._lock:
            self._parts.close()
            self._opened = None


class AsyncRegistry:
    """The methods of a registry, awaitable under asyncio, with the same answers and errors. Tasks may share one.

    `subject` is the registry itself: what is not here runs by `asyncio.to_thread`.
    """

    def __init__(self, subject: LocalRegistry | RemoteRegistry) -> None:
        self.subject = self._subject = subject
        self._places = CapacityLimiter(AT_ONCE)

    async def _run[T](self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._places)

    async def perform[A](self, request: Request[A], principal: Principal | None = None) -> A:
        """As `Registry.perform`."""
        return await self._run(lambda: self._subject.perform(request, principal))

    @property
    def operator(self) -> AsyncOperator:
        return AsyncOperator(self._subject.operator, self._run)

    async def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] = NO_ARGUMENTS,
        *,
        timeout_s: float | None = None,
        consent: str = "",
        for_model: bool = False,
        principal: Principal | None = None,
    ) -> ToolResult:
        """As `Registry.call`. Cancelled, it tells the tool's server."""
        options: dict[str, Any] = {"timeout_s": timeout_s, "consent": consent, "for_model": for_model}
        options["principal"] = principal
        if not isinstance(self._subject, LocalRegistry):
            return await self._run(partial(self._subject.call, tool, arguments, **options))
        await self._run(self._subject._calls.open)
        return await asyncio.wrap_future(self._subject.start_call(tool, arguments, **options))

    async def ingest(self, source: "SourceInput", /, **options: Any) -> "list[SyncReport]":
        """As `waygraph.ingest`, with its options."""
        from waygraph.ingest.pipeline import ingest

        return await self._run(partial(ingest, self._subject, source, **options))

    async def stamp(self) -> str:
        return await self._run(lambda: self._subject.stamp)

    async def exists(self) -> bool:
        """Whether anything was ever written there."""
        return await self._run(lambda: self._subject.store.exists)

    find = in_thread(Registry.find)
    route = in_thread(Registry.route)
    find_tools = in_thread(Registry.find_tools)
    agents = in_thread(Registry.agents)
    agent = in_thread(Registry.agent)
    tools = in_thread(Registry.tools)
    tool = in_thread(Registry.tool)
    lookup = in_thread(Registry.lookup)
    about = in_thread(Registry.about)
    browse = in_thread(Registry.browse)
    agents_page = in_thread(Registry.agents_page)
    toolsets = in_thread(Registry.toolsets)
    toolset = in_thread(Registry.toolset)
    sources = in_thread(Registry.sources)
    status = in_thread(Registry.status)
    close = in_thread(Registry.close)
