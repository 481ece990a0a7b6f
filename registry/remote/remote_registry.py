"""A registry that a service keeps, as one that is here. Its methods are the calls of `calls.py`, sent."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Never, Protocol, Self

from waygraph.registry.model.changes import CypherResult, Status
from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry, RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Principal, TextForm
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.remote import calls
from waygraph.registry.storage.location import ServiceAddress
from waygraph.registry.taxonomy.tree import DEFAULT_NAME, Of

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Progress
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.remote.calls import Call, Talk
    from waygraph.registry.remote.transport import Connection
    from waygraph.registry.storage.store import Origin
    from waygraph.registry.taxonomy.vectors_build import Builder
    from waygraph.registry.writer import WriteSession


class ServiceStore:
    """A `Store` of what a service lets through: its place, whether it holds a registry, and typed Cypher.

    All else of a store is the graph and the index themselves, which stay where the service is: NeedsRegistry.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def place(self) -> str:
        return self._connection.place

    @property
    def exists(self) -> bool:
        try:
            self._connection.ask(calls.status())
        except RegistryNotFound:
            return False
        return True

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> CypherResult:
        return self._connection.ask(calls.cypher(statement, params))

    def close(self) -> None:
        self._connection.close()

    def index(self, *, fresh: bool = False) -> "SearchIndex":  # noqa: ARG002
        return self.refuse()

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:  # noqa: ARG002
        return self.refuse()

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:  # noqa: ARG002
        return self.refuse()

    def writing(self, *, trust_index: bool = True) -> Never:  # noqa: ARG002
        self.refuse()

    def filling(self, origin: "Origin") -> Never:  # noqa: ARG002
        self.refuse()

    def refuse(self) -> Never:
        """Raises NeedsRegistry."""
        raise NeedsRegistry(self.place)


def as_method[M](method: M, call: Callable[..., Any]) -> M:
    """The method with the documentation and the signature of the call that it sends."""
    signature = inspect.signature(call)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [itself, *signature.parameters.values()]
    attributes = {"__doc__": call.__doc__, "__signature__": signature.replace(parameters=parameters)}
    for name, value in attributes.items():
        setattr(method, name, value)
    return method


class ConnectionHolder(Protocol):
    """What holds a connection to a service."""

    _connection: "Connection"


def ask[**P, T](call: "Callable[P, Call[T]]") -> Callable[Concatenate[ConnectionHolder, P], T]:
    """The method that sends a call and returns its answer."""

    def method(self: ConnectionHolder, /, *args: P.args, **options: P.kwargs) -> T:
        return self._connection.ask(call(*args, **options))

    return as_method(method, call)


def follow[**P, T](talk: "Callable[P, Talk[T]]") -> Callable[Concatenate[ConnectionHolder, P], T]:
    """The method that sends each call that a talk gives out, until it ends."""

    def method(self: ConnectionHolder, /, *args: P.args, **options: P.kwargs) -> T:
        calls = talk(*args, **options)
        try:
            call = next(calls)
            while True:
                try:
                    answer = self._connection.ask(call)
                except WaygraphError as error:
                    call = calls.throw(error)
                else:
                    call = calls.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    return as_method(method, talk)


class RemoteRegistry:
    """Implements Registry over a service: the same methods, nouns and errors. Threads may share one.

    Beside the errors of each method: NotAuthenticated, NotAllowed, TooManyRequests, ServiceUnavailable,
    ServiceFailed. A `principal` is refused (InvalidQuery), since the service knows who asks by the key. What works on
    the graph itself (`read`, `change`, `writing`, `reindex`, `put_statuses`, `notice`), and `open_model`, raises
    NeedsRegistry.
    """

    def __init__(self, connection: "Connection", settings: Settings) -> None:
        self._connection, self._settings = connection, settings
        self._store = ServiceStore(connection)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def store(self) -> ServiceStore:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def exists(self) -> bool:
        return self._store.exists

    @property
    def stamp(self) -> str:
        return self._connection.ask(calls.stamp())

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its `location` is the service's URL, whatever the service calls it."""
        return replace(self._connection.ask(calls.status(principal=principal)), location=self._connection.place)

    route = ask(calls.route)
    find_tools = ask(calls.find_tools)
    cypher = ask(calls.cypher)
    agents = follow(calls.agents)
    agent = ask(calls.agent)
    tools = follow(calls.tools)
    tool = ask(calls.tool)
    lookup = follow(calls.lookup)
    about = ask(calls.about)
    browse = ask(calls.browse)
    agents_page = follow(calls.agents_page)
    tools_page = follow(calls.tools_page)
    toolsets = ask(calls.toolsets)
    toolset = ask(calls.toolset)
    sources = ask(calls.sources)
    changes = follow(calls.changes)
    changes_page = follow(calls.changes_page)
    usage = ask(calls.usage)
    export = ask(calls.export)
    ingest = follow(calls.ingest)
    take = ask(calls.take)
    set = ask(calls.set_agent)
    set_tool = ask(calls.set_tool)
    remove = ask(calls.remove)
    approve = ask(calls.approve)
    forget = ask(calls.forget)
    set_toolset = ask(calls.set_toolset)
    remove_toolset = ask(calls.remove_toolset)

    @property
    def notice(self) -> Never:
        self._store.refuse()

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:  # noqa: ARG002
        self._store.refuse()

    def writing(self, *, texts: TextForm | None = None, trust_index: bool = True) -> Never:  # noqa: ARG002
        self._store.refuse()

    def change[T](
        self,
        work: "Callable[[WriteSession], T]",  # noqa: ARG002
        *,
        texts: TextForm | None = None,  # noqa: ARG002
        trust_index: bool = True,  # noqa: ARG002
    ) -> T:
        self._store.refuse()

    def taxonomy(self, name: str | None = None, *, principal: Principal | None = None) -> Never:  # noqa: ARG002
        self._store.refuse()

    def build_taxonomy(
        self,
        builder: "Builder | None" = None,  # noqa: ARG002
        *,
        name: str = DEFAULT_NAME,  # noqa: ARG002
        of: Of = Of.AGENTS,  # noqa: ARG002
        private: bool = False,  # noqa: ARG002
        shown_to_all: bool = False,  # noqa: ARG002
    ) -> Never:
        """Takes vectors, float32 of shape (dimension,), as a graph has them. Raises NeedsRegistry."""
        self._store.refuse()

    def forget_taxonomy(self, name: str = DEFAULT_NAME) -> Never:  # noqa: ARG002
        self._store.refuse()

    def open_model(self, spec: str, *, option: str) -> Never:  # noqa: ARG002
        self._store.refuse()

    def put_statuses(
        self,
        statuses: object,  # noqa: ARG002
        tried: object = None,  # noqa: ARG002
        pauses: object = None,  # noqa: ARG002
    ) -> Never:
        self._store.refuse()

    def reindex(
        self,
        *,
        texts: TextForm | None = None,  # noqa: ARG002
        embedder: str | None = None,  # noqa: ARG002
        progress: "Progress | None" = None,  # noqa: ARG002
    ) -> Never:
        self._store.refuse()
