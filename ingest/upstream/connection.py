"""A connection to one MCP server, as those who follow it see it. Runs on anyio."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from waygraph.ingest.upstream.launch import Launch
from waygraph.ingest.upstream.listing import ServerListing


class Connection(Protocol):
    """An open connection; it is closed by leaving the context that opened it, in the task that entered it.

    Every method raises UpstreamError, never an error of the SDK or the transport.
    """

    async def listing(self) -> ServerListing:
        """All that the server offers now, all pages, asked anew. Bounded in time, pages, tools and bytes."""
        ...

    async def changed(self) -> None:
        """Returns when the server told of a change since the last `listing` began; raises when the connection ends.

        Many tellings are one. Of a server that does not notify it only ever raises.
        """
        ...


Connect = Callable[[Launch], AbstractAsyncContextManager[Connection]]
"""Opens a connection, within its deadline. Raises UpstreamError."""
