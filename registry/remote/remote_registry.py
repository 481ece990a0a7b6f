"""A registry that a service keeps, as one that is here. Its methods are the calls of `calls.py`, sent."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Self

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.changes import Status
from waygraph.registry.model.errors import InvalidSetting, RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Principal, Query
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.tool_calls import RankedTools, ToolName, ToolResult, name_of
from waygraph.registry.model.validation import checked_for_tools
from waygraph.registry.operations.catalog import GetStatus
from waygraph.registry.operations.search import CallTool
from waygraph.registry.remote import calls
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe
from waygraph.registry.storage.location import ServiceAddress

if TYPE_CHECKING:
    from waygraph.registry.operations.operator import Operator
    from waygraph.registry.operations.request import Request
    from waygraph.registry.remote.calls import Call, Talk
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


class ServiceClient:
    """Sends calls to one service, and talks to their end."""

    _connection: "Connection"

    def _send[T](self, make: "Callable[[], Call[T] | Talk[T]]") -> T:
        call = make()
        if isinstance(call, calls.Call):
            return self._connection.ask(call)
        try:
            following = next(call)
            while True:
                try:
                    answer = self._connection.ask(following)
                except WaygraphError as error:
                    following = call.throw(error)
                else:
                    following = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


def ask[**P, T](call: "Callable[P, Call[T]] | Callable[P, Talk[T]]") -> Callable[Concatenate[ServiceClient, P], T]:
    """A method that sends the call, with the documentation and the signature of it."""

    def method(client: ServiceClient, /, *args: P.args, **options: P.kwargs) -> T:
        return client._send(partial(call, *args, **options))

    signature = inspect.signature(call)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    facts = {"__signature__": signature.replace(parameters=[itself, *signature.parameters.values()])}
    vars(method).update(facts)
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    return method


class RemoteRegistry(ServiceClient, Searchable):
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
        return self._send(lambda: calls.call_of(request))

    @property
    def operator(self) -> "Operator":
        from waygraph.registry.operations.operator import Operator

        return Operator(self)

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def stamp(self) -> str:
        return self._connection.ask(calls.stamp())

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
        full_query = checked_for_tools(query, limit, agent_ids, limits=None)
        return self.perform(calls.RankTools(query=full_query, recipe=recipe), principal)

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

    ingest = ask(calls.ingest)
    take = ask(calls.take)
    start_ingest = ask(calls.start_ingest)
    ingest_status = ask(calls.ingest_status)
    sync_source = ask(calls.sync_source)
