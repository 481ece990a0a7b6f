"""A connection to one MCP server, as those who follow it and those who call its tools see it. Runs on anyio."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from waygraph.ingest.upstream.host import Host, Result
from waygraph.ingest.upstream.launch import Launch
from waygraph.ingest.upstream.listing import ServerListing
from waygraph.registry.errors import UpstreamUnreachable


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


class CallConnection(Connection, Protocol):
    """One that tools are called over, any number at a time."""

    @property
    def is_open(self) -> bool:
        """False from the moment at which the server's end is known."""
        ...

    @property
    def heard(self) -> int:
        """How many messages have come, of whatever kind."""
        ...

    async def ended(self) -> None:
        """Returns when the connection is open no more."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, host: Host, timeout_s: float, input_schema: str = ""
    ) -> Result:
        """The result as the wire had it, an error that the tool tells included.

        What the server tells and asks meanwhile goes to `host`. Leaving the call, by its timeout or a cancellation,
        tells the server and waits for nothing. `input_schema`: of the tool, JSON; a server of the modern era may want
        some arguments in headers. Raises CallTimedOut, UpstreamAnswered for an error of the protocol, NotDelivered if
        the tool surely did not run, and any other UpstreamError if that is not known, as MayHaveRun if it was lost.
        """
        ...


_MAY_HAVE_RUN = "; whether the tool did its work is not known"


class NotDelivered(UpstreamUnreachable):
    """The request did not reach the server: on another connection it may be made again."""


class MayHaveRun(UpstreamUnreachable):
    """The server was lost after it was asked: to ask again may do it twice."""

    retryable = False

    def __init__(self, reason: str) -> None:
        told = reason if reason.endswith(_MAY_HAVE_RUN) else f"{reason}{_MAY_HAVE_RUN}"
        super().__init__(told)


Connect = Callable[[Launch], AbstractAsyncContextManager[Connection]]
"""Opens a connection, within its deadline. Raises UpstreamError."""
