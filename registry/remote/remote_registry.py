"""A registry that a service keeps, as one that is here."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Never

from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry, RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.registry import Registry, Status
from waygraph.registry.remote import calls
from waygraph.registry.remote.address import ServiceAddress
from waygraph.registry.routing.queries import About, Listed, Page
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.graph.user_cypher.sandbox import CypherResult
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.changes import (
        Approved,
        Change,
        Document,
        OperatorSettings,
        Policy,
        SourceSummary,
        SyncReport,
    )
    from waygraph.registry.remote.calls import Call, Talk
    from waygraph.registry.remote.transport import Connection
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.fill import Origin
    from waygraph.registry.storage.writer import Forgotten, WriteSession


# What a service lets through of a store: its place, whether it holds a registry, and typed Cypher.
#
# All else of a store is the graph and the index themselves, which stay where the service is.


class ServiceStore:
    """A `Store`; where it needs the registry itself it raises NeedsRegistry."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def place(self) -> str:
        return self._connection.place

    @property
    def exists(self) -> bool:
        try:
            self._connection.ask(calls.status(self.place, None))
        except RegistryNotFound:
            return False
        return True

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        return self._connection.ask(calls.cypher(statement, params))

    def close(self) -> None:
        self._connection.close()

    def index(self, *, fresh: bool = False) -> "SearchIndex":  # noqa: ARG002
        return self._refuse()

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:  # noqa: ARG002
        return self._refuse()

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:  # noqa: ARG002
        return self._refuse()

    def writing(self, *, trust_index: bool = True) -> Never:  # noqa: ARG002
        self._refuse()

    def filling(self, origin: "Origin") -> Never:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> Never:
        raise NeedsRegistry(self.place)


class RemoteRegistry(Registry):
    """What a Registry is asked, a service answers: the same methods, nouns and errors. Threads may share one.

    Beside the errors of each method: NotAuthenticated, NotAllowed, TooManyRequests, ServiceUnavailable,
    ServiceFailed. A `principal` is refused (InvalidQuery), since the service knows who asks by the key. What works on
    the graph itself (`read`, `change`, `writing`, `reindex`, `notice`) raises NeedsRegistry.
    """

    def __init__(self, connection: "Connection", settings: Settings) -> None:
        super().__init__(ServiceStore(connection), settings, {}, "")
        self._connection = connection

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "RemoteRegistry":
        """The service of a URL; nothing is asked yet. Raises InvalidSetting, also for an embedder: it has its own."""
        from waygraph.registry.remote.transport import Connection

        settings = load_settings(environ) if settings is None else settings
        if embedder:
            raise InvalidSetting("a service embeds by the embedder that it was started with; none can be chosen here")
        return RemoteRegistry(Connection(ServiceAddress.parse(str(location)), settings), settings)

    def route(
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
        return self._ask(call)

    def find_tools(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> ToolRoute:
        return self._ask(calls.find_tools(query, limit=limit, agent_ids=agent_ids, recipe=recipe, principal=principal))

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        return self._follow(calls.agents(principal))

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        return self._ask(calls.agent(agent_id, principal))

    def tools(self, agent_id: str | None = None, *, principal: Principal | None = None) -> list[Tool]:
        return self._follow(calls.tools(agent_id, principal))

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        return self._ask(calls.tool(name, principal))

    def named(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        return self._follow(calls.named(name, principal))

    def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        return self._ask(calls.about(agent_id, principal))

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Listed]:
        return self._follow(calls.agents_page(filters=filters, after=after, limit=limit, principal=principal))

    def tools_page(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        return self._follow(calls.tools_page(agent_id, after=after, limit=limit, principal=principal))

    def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        return self._ask(calls.sources(principal))

    def _changed[T](self, work: "Callable[[WriteSession], T]", *, trust_index: bool = True) -> T:
        """Whether there is a registry is not asked: its graph is out of reach either way."""
        return self.change(work, trust_index=trust_index)

    def changes(
        self, *, since: str = "", agent_id: str = "", limit: int | None = 100, principal: Principal | None = None
    ) -> "list[Change]":
        return self._follow(calls.changes(since=since, agent_id=agent_id, limit=limit, principal=principal))

    def changes_page(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[Change]":
        talk = calls.changes_page(since=since, agent_id=agent_id, after=after, limit=limit, principal=principal)
        return self._follow(talk)

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its `location` is the service's URL."""
        return self._ask(calls.status(self._connection.place, principal))

    @property
    def stamp(self) -> str:
        return self._ask(calls.stamp())

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        return self._ask(calls.export(format))

    def ingest(
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
        """Brings the registry to what a source says now, which the service reads and embeds: a report for each
        manifest, several of an export.

        `partial`: what the documents do not list is not removed. Raises SourceError, MassRemoval, InvalidSetting and
        what a write raises; see `take` for what was done before that.
        """
        taken = self.take(
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

    def take(
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
        """As `ingest`, where the error of a later manifest stands beside the reports of those before it."""
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
        return self._ask(call)

    def set(
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
        """`removed=True` goes by itself (InvalidSetting)."""
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
        return self._ask(call)

    def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        return self._ask(calls.approve(names, principal))

    def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        return self._ask(calls.forget(source, principal))

    def _ask[T](self, call: "Call[T]") -> T:
        return self._connection.ask(call)

    def _follow[T](self, talk: "Talk[T]") -> T:
        """Each call that the talk gives out is asked, until it ends."""
        try:
            call = next(talk)
            while True:
                try:
                    answer = self._ask(call)
                except WaygraphError as error:
                    call = talk.throw(error)
                else:
                    call = talk.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found
