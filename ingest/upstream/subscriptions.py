"""What a server tells by itself: that its lists have changed, in both protocol eras."""

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.types import ServerCapabilities
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from waygraph.ingest.upstream.wire import Wire
from waygraph.registry.model.errors import UpstreamError, UpstreamUnreachable

_STANDS_S = 3.0
"""For the way of notifications to stand, before anything is listed. Later is not too late, but may miss a change."""
_FIRST_PAUSE_S, _LONG_LIFE_S, _MISSES = 1.0, 30.0, 3


class Following:
    """Many notifications are one flag: it is set on the wire, and costs no task and no parsing."""

    def __init__(self, wire: Wire, *, asked: bool) -> None:
        self._wire = wire
        self._asked = asked
        self._told = False
        self._loss: UpstreamError | None = None
        self._news = anyio.Event()
        self._settled = anyio.Event()
        self._notifies = False
        wire.on_change = self._note
        wire.on_silence = self._silent

    async def await_change(self) -> None:
        """Raises UpstreamError when no more can be told."""
        while not self._told:
            if self._loss is not None:
                raise self._loss.again()
            await self._news.wait()

    def begin(self) -> None:
        """A listing begins: what was told before is answered by it."""
        if self._told:
            self._told = False
            self._news = anyio.Event()
            if self._loss is not None:
                self._news.set()

    def lose(self, loss: UpstreamError) -> None:
        self._loss = self._loss or loss
        self._settled.set()
        self._news.set()

    async def stands(self) -> bool:
        """Whether the server tells of changes, and we hear it."""
        with anyio.move_on_after(_STANDS_S):
            await self._settled.wait()
        self._settled.set()  # the next listing does not wait again
        return self._notifies

    async def follow(self, client: Client) -> None:
        """Keeps the way open for as long as the connection runs. Never raises."""
        if not self._asked or not _notifies(client.server_capabilities):
            self._settle(False)
        elif client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._subscribe(client)
        else:
            await self._wire.settled.wait()
            self._settle(self._wire.pushes)

    async def _subscribe(self, client: Client) -> None:
        """A subscription that ends is opened again; what was told between is taken for told."""
        misses, stood = 0, False
        while misses < _MISSES:
            began = anyio.current_time()
            try:
                async with client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as subscription:
                    if stood:
                        self._note()
                    stood = True
                    self._settle(bool(subscription.honored.tools_list_changed))
                    if not self._notifies:
                        return
                    async for _ in subscription:
                        pass  # events are seen on the wire; this ends with the subscription
            except (MCPError, SubscriptionLost, TimeoutError):
                if not stood:
                    self._settle(False)
                    return
            misses = 0 if anyio.current_time() - began > _LONG_LIFE_S else misses + 1
            await anyio.sleep(_FIRST_PAUSE_S * 2**misses)
        self._silent()

    def _note(self) -> None:
        self._told = True
        self._news.set()

    def _settle(self, notifies: bool) -> None:
        self._notifies = notifies
        self._settled.set()

    def _silent(self) -> None:
        self._notifies = False
        self.lose(UpstreamUnreachable("the stream by which it told of changes is lost"))


def _notifies(offered: ServerCapabilities) -> bool:
    return any(part is not None and part.list_changed for part in (offered.tools, offered.prompts, offered.resources))
