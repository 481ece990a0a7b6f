"""A registry that a service keeps, as one that is here. Its methods are the calls of `calls.py`, sent."""

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, Self, overload

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


class Sender(Protocol):
    """A client that sends calls, and talks to their end."""

    def _send[T](self, make: "Callable[[], Call[T] | Talk[T]]") -> T: ...


class AsyncSender(Protocol):
    """The same, awaited."""

    def _send[T](self, make: "Callable[[], Call[T] | Talk[T]]") -> Awaitable[T]: ...


class Method[**P, T]:
    """A method of both clients, with the documentation and the signature of the call that it sends."""

    def __init__(self, call: "Callable[P, Call[T]] | Callable[P, Talk[T]]") -> None:
        self._call = call
        self.__name__, self.__doc__ = call.__name__, call.__doc__
        signature = inspect.signature(call)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.__signature__ = signature.replace(parameters=[itself, *signature.parameters.values()])

    def __call__(self, client: Any, /, *args: P.args, **options: P.kwargs) -> Any:
        return client._send(partial(self._call, *args, **options))

    @overload
    def __get__(self, client: None, kind: type[Sender]) -> Callable[Concatenate[Sender, P], T]: ...

    @overload
    def __get__(self, client: None, kind: type[AsyncSender]) -> Callable[Concatenate[AsyncSender, P], Awaitable[T]]: ...

    @overload
    def __get__(self, client: Sender, kind: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncSender, kind: type) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: Any, kind: type) -> Any:
        return self if client is None else MethodType(self, client)


class OperatorMethods:
    """What operators do over a service, in both clients."""

    set = Method(calls.set_agent)
    set_tool = Method(calls.set_tool)
    remove = Method(calls.remove)
    approve = Method(calls.approve)
    reject = Method(calls.reject)
    waiting = Method(calls.waiting)
    forget = Method(calls.forget)
    set_toolset = Method(calls.set_toolset)
    remove_toolset = Method(calls.remove_toolset)
    use_taxonomy = Method(calls.use_taxonomy)
    changes = Method(calls.changes)
    usage = Method(calls.usage)
    why = Method(calls.why)
    draw_map = Method(calls.draw_map)
    neighbourhood = Method(calls.neighbourhood)
    usage_days = Method(calls.usage_days)
    search_gaps = Method(calls.search_gaps)
    api_keys = Method(calls.api_keys)
    create_key = Method(calls.create_key)
    revoke_key = Method(calls.revoke_key)
    cypher = Method(calls.cypher)
    export = Method(calls.export)


def ask[**P, T](call: "Callable[P, Call[T]] | Callable[P, Talk[T]]") -> Callable[Concatenate[Sender, P], T]:
    """The same for one client: as a function, since a protocol such as `Registry` takes no descriptors."""
    return Method(call)


class ServiceClient:
    """Implements Sender."""

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


class RemoteOperator(OperatorMethods, ServiceClient):
    """The methods of `LocalOperator`, over a service."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection


class RemoteRegistry(ServiceClient):
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
    agents = ask(calls.agents)
    agent = ask(calls.agent)
    tools = ask(calls.tools)
    tool = ask(calls.tool)
    lookup = ask(calls.lookup)
    about = ask(calls.about)
    browse = ask(calls.browse)
    agents_page = ask(calls.agents_page)
    toolsets = ask(calls.toolsets)
    toolset = ask(calls.toolset)
    sources = ask(calls.sources)
    ingest = ask(calls.ingest)
    take = ask(calls.take)
    start_ingest = ask(calls.start_ingest)
    ingest_status = ask(calls.ingest_status)
    sync_source = ask(calls.sync_source)
