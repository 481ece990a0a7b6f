"""A registry that a service keeps, as one that is here: it sends requests, and reads the answers."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, Unpack

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.changes import Status
from waygraph.registry.model.errors import InvalidSetting, RegistryNotFound
from waygraph.registry.model.nouns import Principal, Query
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.tool_calls import RankedTools, ToolName, ToolResult, name_of
from waygraph.registry.model.validation import as_query
from waygraph.registry.operations.catalog import GetStatus
from waygraph.registry.operations.search import CallTool
from waygraph.registry.remote import calls
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe
from waygraph.registry.storage.location import ServiceAddress

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Document, SyncReport
    from waygraph.registry.operations.operator import Operator
    from waygraph.registry.operations.request import Request
    from waygraph.registry.remote.calls import Call, IngestReports, TakeOptions
    from waygraph.registry.remote.transport import Connection


class ServicePlace:
    """Where a service is, and whether it holds a registry."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def place(self) -> str:
        return self._connection.place

    @property
    def exists(self) -> bool:
        try:
            self._connection.ask(calls.request_call(GetStatus()))
        except RegistryNotFound:
            return False
        return True


class RemoteRegistry(Searchable):
    """Implements Registry over a service: the same methods, nouns and errors. Threads may share one.

    Beside the errors of each method: NotAuthenticated, NotAllowed, TooManyRequests, ServiceUnavailable,
    ServiceFailed. A `principal` is refused (InvalidQuery), since the service knows who asks by the key.
    """

    def __init__(self, connection: "Connection", settings: Settings) -> None:
        self._connection, self._settings = connection, settings
        self._store = ServicePlace(connection)

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """The service of a URL; nothing is asked yet. Raises InvalidSetting, also for an embedder: it has its own."""
        from waygraph.registry.remote.transport import Connection

        settings = load_settings(environ) if settings is None else settings
        if embedder:
            raise InvalidSetting("a service embeds by the embedder that it was started with; none can be chosen here")
        return cls(Connection(ServiceAddress.parse(str(location)), settings), settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def store(self) -> ServicePlace:
        return self._store

    def perform[A](self, request: "Request[A]", principal: Principal | None = None) -> A:
        """Sends it, and reads the answer. Raises InvalidQuery for a principal."""
        calls.refuse_principal(principal)
        return calls.perform(request, self._connection.ask)

    @property
    def operator(self) -> "Operator":
        from waygraph.registry.operations.operator import Operator

        return Operator(self)

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def stamp(self) -> str:
        call: Call[Any] = calls.request_call(GetStatus())
        of_tag: Call[str] = replace(call, read=lambda reply: reply.headers["etag"].strip('"'))
        return self._connection.ask(of_tag)

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its `location` is the service's URL, whatever the service calls it."""
        return replace(super().status(principal=principal), location=self._connection.place)

    def find(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> RankedTools:
        """As `find_tools`; each tool says whether it can run there, and why not."""
        return self.perform(calls.RankTools(query=as_query(query, limit, agent_ids), recipe=recipe), principal)

    def call(
        self,
        tool: ToolName,
        arguments: Mapping[str, Any] = MappingProxyType({}),
        *,
        timeout_s: float | None = None,
        consent: str = "",
        for_model: bool = False,
        principal: Principal | None = None,
    ) -> ToolResult:
        """Runs a tool by the service's gateway. Raises NotCallable, InvalidArguments, CallTimedOut, UpstreamError."""
        request = CallTool(
            tool_id=name_of(tool), arguments=arguments, timeout_s=timeout_s, consent=consent, for_model=for_model
        )
        return self.perform(request, principal)

    def take(
        self, documents: "Sequence[Document]", *, source: str, **options: "Unpack[TakeOptions]"
    ) -> "IngestReports":
        """As `ingest`, where the error of a later manifest stands beside the reports of those before it."""
        return self.perform(calls.Take(documents=documents, source=source, options=options))

    def ingest(
        self, documents: "Sequence[Document]", *, source: str, **options: "Unpack[TakeOptions]"
    ) -> "list[SyncReport]":
        """Brings the registry to what a source says now, which the service reads and embeds: a report for each
        manifest, several of an export.

        `partial`: what the documents do not list is not removed. Raises SourceError, MassRemoval, InvalidSetting and
        what a write raises; see `take` for what was done before that.
        """
        return self.take(documents, source=source, **options).all()

    def sync_source(self, name: str) -> "list[SyncReport]":
        """Reads a source now that the service follows, and asks its servers: a report. Raises UnknownName,
        InvalidSetting with what to do for one that it does not follow, SourceError, MassRemoval, and as a write.
        """
        return self.perform(calls.SyncSource(name=name))
