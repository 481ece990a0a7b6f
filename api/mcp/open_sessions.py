"""How many sessions of the handshake era one caller may keep open, so that none takes the room of all others.

A seat is taken before the SDK opens a session, and left when its connection ends, however that ends.
"""

from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from waygraph.api.mcp.connection import Context, connection_of
from waygraph.registry.errors import TooManySessions

Scope = MutableMapping[str, Any]

_SEAT = "waygraph.mcp.seat"
_VERSION, _SESSION = b"mcp-protocol-version", b"mcp-session-id"


class OpenSessions:
    """`most` of each owner; 0: no limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = Counter[str]()

    def __len__(self) -> int:
        """How many are open, of all owners."""
        return self._open.total()

    @contextmanager
    def around(self, scope: Scope, owner: str) -> Iterator[None]:
        """Around an HTTP request of the owner. Raises TooManySessions for one that would open a session too many."""
        if not self._most or not _opens(scope):
            yield
            return
        if self._open[owner] >= self._most:
            raise TooManySessions(self._most)
        seat = scope[_SEAT] = _Seat(self._open, owner)
        try:
            yield
        finally:
            if not seat.kept:
                seat.leave()


class _Seat:
    """Of one session. `kept`: it is left when the session's connection ends."""

    def __init__(self, seats: Counter[str], owner: str) -> None:
        self._seats, self._owner = seats, owner
        self._taken, self.kept = True, False
        seats[owner] += 1

    def leave(self) -> None:
        if self._taken:
            self._taken = False
            self._seats[self._owner] -= 1
            if not self._seats[self._owner]:
                del self._seats[self._owner]


async def seated(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server: a session has its seat as long as its connection."""
    seat = ctx.request.scope.get(_SEAT) if ctx.method == "initialize" and ctx.request is not None else None
    if seat is not None:
        seat.kept = True
        connection_of(ctx).exit_stack.callback(seat.leave)
    return await call_next(ctx)


def _opens(scope: Scope) -> bool:
    """Whether the SDK opens a session for the request, to close it again if it is none that may begin one."""
    headers = dict(scope["headers"])
    version = headers.get(_VERSION, b"").decode("latin-1")
    return _SESSION not in headers and (not version or version in HANDSHAKE_PROTOCOL_VERSIONS)
