"""One connection of the bridge to the service: in the handshake era one session, in the modern one any requests."""

from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage

from waygraph.api.mcp.service_client import ServiceClient
from waygraph.registry.remote.address import ServiceAddress
from waygraph.registry.settings import Settings

type Heard = Callable[["Link", JSONRPCMessage], Awaitable[None]]


class Link:
    """`run` is its task; `heard` gets each message of the service's, with the link that it came by."""

    def __init__(
        self,
        url: str,
        address: ServiceAddress,
        settings: Settings,
        heard: "Heard",
    ) -> None:
        self._url, self._address, self._settings = url, address, settings
        self._heard = heard
        self.place = address.url
        self.patience_s = settings.remote_timeout_s
        """How long an answer that only asks may take."""
        self.is_open = False
        self._over = anyio.Event()
        self.gone = anyio.Event()
        self._client: ServiceClient | None = None
        self._stream: Any = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until it is closed; then the service is told that the session is over."""
        try:
            await self._run(task_status)
        except Exception:
            if self._stream is None:
                raise
            # What breaks the SDK's transport ends this link alone; who uses it sees that it is not open.
        finally:
            self.is_open = False
            self.gone.set()

    async def _run(self, task_status: TaskStatus[None]) -> None:
        most = self._settings.remote_max_answer_bytes
        async with (
            ServiceClient(self._address, self._settings) as self._client,
            streamable_http_client(self._url, http_client=self._client, max_sse_event_size=most) as (read, write),
            anyio.create_task_group() as tasks,
        ):
            self._stream, self.is_open = write, True
            tasks.start_soon(self._hear, read)
            task_status.started()
            await self._over.wait()
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        self._over.set()

    async def send(self, message: SessionMessage) -> None:
        """What is sent to a link that has ended is lost."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._stream.send(message)

    def has_lost(self, request_id: str | int) -> bool:
        """Whether a request was not taken since the session is over. Told once."""
        lost = self._client.without_session if self._client else set[str | int]()
        found = request_id in lost
        lost.discard(request_id)
        return found

    async def _hear(self, read: AsyncIterable[SessionMessage | Exception]) -> None:
        async for item in read:
            if isinstance(item, SessionMessage):
                await self._heard(self, item.message)
        self.close()
