"""A registry that a service keeps, as one that is here. Its methods are the calls of `calls.py`, sent."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, Self

from waygraph.registry.model.changes import Status
from waygraph.registry.model.errors import InvalidSetting, RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.remote import calls
from waygraph.registry.storage.location import ServiceAddress

if TYPE_CHECKING:
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
            self._connection.ask(calls.status())
        except RegistryNotFound:
            return False
        return True


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


class RemoteOperator:
    """The methods of `LocalOperator`, over a service."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    set = ask(calls.set_agent)
    set_tool = ask(calls.set_tool)
    remove = ask(calls.remove)
    approve = ask(calls.approve)
    forget = ask(calls.forget)
    set_toolset = ask(calls.set_toolset)
    remove_toolset = ask(calls.remove_toolset)
    changes = follow(calls.changes)
    usage = ask(calls.usage)
    cypher = ask(calls.cypher)
    export = ask(calls.export)


class RemoteRegistry:
    """Implements Registry over a service: the same methods, nouns and errors. Threads may share one.

    Beside the errors of each method: NotAuthenticated, NotAllowed, TooManyRequests, ServiceUnavailable,
    ServiceFailed. A `principal` is refused (InvalidQuery), since the service knows who asks by the key.
    """

    def __init__(self, connection: "Connection", settings: Settings) -> None:
        self._connection, self._settings = connection, settings
        self._store = ServicePlace(connection)

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
    def store(self) -> ServicePlace:
        return self._store

    @property
    def operator(self) -> RemoteOperator:
        return RemoteOperator(self._connection)

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def stamp(self) -> str:
        return self._connection.ask(calls.stamp())

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its `location` is the service's URL, whatever the service calls it."""
        return replace(self._connection.ask(calls.status(principal=principal)), location=self._connection.place)

    route = ask(calls.route)
    find_tools = ask(calls.find_tools)
    agents = follow(calls.agents)
    agent = ask(calls.agent)
    tools = follow(calls.tools)
    tool = ask(calls.tool)
    lookup = follow(calls.lookup)
    about = ask(calls.about)
    browse = ask(calls.browse)
    agents_page = follow(calls.agents_page)
    toolsets = ask(calls.toolsets)
    toolset = ask(calls.toolset)
    sources = ask(calls.sources)
    ingest = follow(calls.ingest)
    take = ask(calls.take)
