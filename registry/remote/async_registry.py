"""A registry that a service keeps, for asynchronous programs."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from waygraph.registry.model.errors import RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.remote import calls
from waygraph.registry.remote.address import ServiceAddress
from waygraph.registry.remote.transport import AsyncConnection
from waygraph.registry.routing.queries import About, Listed, Page
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.graph.user_cypher.sandbox import CypherResult
    from waygraph.registry.model.changes import (
        Approved,
        Change,
        Document,
        OperatorSettings,
        Policy,
        SourceSummary,
        SyncReport,
    )
    from waygraph.registry.registry import Status
    from waygraph.registry.remote.calls import Call, Talk
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.writer import Forgotten


class AsyncRemoteRegistry:
    """The methods of `RemoteRegistry`, awaitable, with the same answers and errors. Tasks of one loop may share one."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, location: str, *, settings: Settings | None = None, environ: Mapping[str, str] | None = None) -> Self:
        """The service of a URL; nothing is asked yet. Raises InvalidSetting."""
        settings = load_settings(environ) if settings is None else settings
        return cls(AsyncConnection(ServiceAddress.parse(location), settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of connections. A closed registry answers nothing more."""
        await self._connection.close()

    async def route(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        agent_weight: float | None = None,
        tool_weight: float | None = None,
        principal: Principal | None = None,
    ) -> Route:
        call = calls.route(
            query,
            limit=limit,
            recipe=recipe,
            agent_weight=agent_weight,
            tool_weight=tool_weight,
            principal=principal,
        )
        return await self._ask(call)

    async def find_tools(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> ToolRoute:
        return await self._ask(
            calls.find_tools(query, limit=limit, agent_ids=agent_ids, recipe=recipe, principal=principal)
        )

    async def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        return await self._follow(calls.agents(principal))

    async def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        return await self._ask(calls.agent(agent_id, principal))

    async def tools(self, agent_id: str | None = None, *, principal: Principal | None = None) -> list[Tool]:
        return await self._follow(calls.tools(agent_id, principal))

    async def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        return await self._ask(calls.tool(name, principal))

    async def named(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        return await self._follow(calls.named(name, principal))

    async def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        return await self._ask(calls.about(agent_id, principal))

    async def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Listed]:
        return await self._follow(calls.agents_page(filters=filters, after=after, limit=limit, principal=principal))

    async def tools_page(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        return await self._follow(calls.tools_page(agent_id, after=after, limit=limit, principal=principal))

    async def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        return await self._ask(calls.sources(principal))

    async def changes(
        self, *, since: str = "", agent_id: str = "", limit: int | None = 100, principal: Principal | None = None
    ) -> "list[Change]":
        return await self._follow(calls.changes(since=since, agent_id=agent_id, limit=limit, principal=principal))

    async def changes_page(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[Change]":
        talk = calls.changes_page(since=since, agent_id=agent_id, after=after, limit=limit, principal=principal)
        return await self._follow(talk)

    async def status(self, *, principal: Principal | None = None) -> "Status":
        """Its `location` is the service's URL."""
        return await self._ask(calls.status(self._connection.place, principal))

    async def stamp(self) -> str:
        return await self._ask(calls.stamp())

    async def exists(self) -> bool:
        """Whether the service has a registry yet."""
        try:
            await self.status()
        except RegistryNotFound:
            return False
        return True

    async def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        return await self._ask(calls.export(format))

    async def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> "CypherResult":
        return await self._ask(calls.cypher(statement, params or {}))

    async def ingest(
        self,
        documents: "Sequence[Document]",
        *,
        source: str,
        namespace: str = "",
        kind: str = "",
        policy: "Policy | None" = None,
        texts: TextForm | None = None,
        partial: bool = False,
        dry_run: bool = False,
        allow_mass_removal: bool = False,
    ) -> "list[SyncReport]":
        taken = await self.take(
            documents,
            source=source,
            namespace=namespace,
            kind=kind,
            policy=policy,
            texts=texts,
            partial=partial,
            dry_run=dry_run,
            allow_mass_removal=allow_mass_removal,
        )
        return taken.all()

    async def take(
        self,
        documents: "Sequence[Document]",
        *,
        source: str,
        namespace: str = "",
        kind: str = "",
        policy: "Policy | None" = None,
        texts: TextForm | None = None,
        partial: bool = False,
        dry_run: bool = False,
        allow_mass_removal: bool = False,
    ) -> calls.Taken:
        call = calls.ingest(
            documents,
            source=source,
            namespace=namespace,
            kind=kind,
            policy=policy,
            texts=texts,
            partial=partial,
            dry_run=dry_run,
            allow_mass_removal=allow_mass_removal,
        )
        return await self._ask(call)

    async def set(
        self,
        agent_id: str,
        *,
        tags: Sequence[str] | None = None,
        visible_to: Sequence[str] | None = None,
        everyone: bool = False,
        pinned: bool | None = None,
        hidden: bool | None = None,
        removed: bool | None = None,
        principal: Principal | None = None,
    ) -> "OperatorSettings":
        call = calls.set_agent(
            agent_id,
            tags=tags,
            visible_to=visible_to,
            everyone=everyone,
            pinned=pinned,
            hidden=hidden,
            removed=removed,
            principal=principal,
        )
        return await self._ask(call)

    async def remove(self, agent_id: str, *, principal: Principal | None = None) -> "OperatorSettings":
        return await self._ask(calls.remove(agent_id, principal))

    async def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        return await self._ask(calls.approve(names, principal))

    async def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        return await self._ask(calls.forget(source, principal))

    async def _ask[T](self, call: "Call[T]") -> T:
        return await self._connection.ask(call)

    async def _follow[T](self, talk: "Talk[T]") -> T:
        """Each call that the talk gives out is asked, until it ends."""
        try:
            call = next(talk)
            while True:
                try:
                    answer = await self._ask(call)
                except WaygraphError as error:
                    call = talk.throw(error)
                else:
                    call = talk.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found
