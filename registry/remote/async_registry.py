"""A registry that a service keeps, for asynchronous programs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Self

from waygraph.registry.model.changes import Status
from waygraph.registry.model.errors import RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.remote import calls
from waygraph.registry.remote.remote_registry import AsyncSender, Method, OperatorMethods
from waygraph.registry.remote.transport import AsyncConnection
from waygraph.registry.storage.location import ServiceAddress

if TYPE_CHECKING:
    from waygraph.registry.remote.calls import Call, Talk


def ask[**P, T](
    call: "Callable[P, Call[T]] | Callable[P, Talk[T]]",
) -> Callable[Concatenate[AsyncSender, P], Awaitable[T]]:
    """As `remote_registry.ask`, awaited."""
    return Method(call)


class AsyncServiceClient:
    """Implements AsyncSender."""

    _connection: AsyncConnection

    async def _send[T](self, make: "Callable[[], Call[T] | Talk[T]]") -> T:
        call = make()
        if isinstance(call, calls.Call):
            return await self._connection.ask(call)
        try:
            following = next(call)
            while True:
                try:
                    answer = await self._connection.ask(following)
                except WaygraphError as error:
                    following = call.throw(error)
                else:
                    following = call.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class AsyncOperator(OperatorMethods, AsyncServiceClient):
    """The methods of `RemoteOperator`, awaitable."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection


class AsyncRemoteRegistry(AsyncServiceClient):
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

    async def status(self, *, principal: Principal | None = None) -> Status:
        """Its `location` is the service's URL."""
        return replace(await self._connection.ask(calls.status(principal=principal)), location=self._connection.place)

    @property
    def operator(self) -> AsyncOperator:
        return AsyncOperator(self._connection)

    async def exists(self) -> bool:
        """Whether the service has a registry yet."""
        try:
            await self.status()
        except RegistryNotFound:
            return False
        return True

    stamp = ask(calls.stamp)
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
