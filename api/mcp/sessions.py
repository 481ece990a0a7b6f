"""What the gateway remembers of a host between its requests, and who sent a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cachetools import FIFOCache
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from waygraph.registry.access.visibility import Caller
from waygraph.registry.model.nouns import Principal

Context = ServerRequestContext[Any, Any]

MAX_KNOWN = 4_096
"""So many tools are remembered of a session; the least recently sent go."""
_OF_SUMMARY = "~"
_STATE = "waygraph.session"


@dataclass(slots=True)
class Session:
    """Of a connection of the handshake era, or a stdio process. A modern host over HTTP has none: each request stands
    alone. `log_level` empty: all that tools log.
    """

    log_level: str = ""
    _sent: FIFOCache[str, str] = field(default_factory=lambda: FIFOCache(MAX_KNOWN))
    """Of each tool, by call name, the version that was sent; `~` behind it: its summary only."""

    @property
    def known_versions(self) -> Mapping[str, str]:
        """Versions by call name, as `FindAsked.known` takes them."""
        return self._sent

    def note_sent(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """These tools have just been sent, as an answer of find_tools has them."""
        for tool in tools:
            name, version = str(tool["name"]), str(tool["version"])
            before = self._sent.pop(name, "")
            # Of a tool that was sent whole the summary tells nothing more.
            self._sent[name] = before if before == version.removesuffix(_OF_SUMMARY) else version


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who sent a request, and by which door. `namespace` empty: the whole registry.

    `owner`: whose request it is, as far as that is known. Requests of different owners come from different hosts.
    """

    caller: Caller
    session: Session
    namespace: str = ""
    owner: str = ""

    @property
    def principal(self) -> Principal | None:
        return self.caller.principal


def connection_of(ctx: Context) -> Connection:
    """The connection that a request came over; of a modern host one that ends with the request.

    The SDK documents its `state` for handlers, and gives them no other way to it than this.
    """
    return ctx.session._connection


def session_of(ctx: Context) -> Session:
    """The session of a request that came over HTTP."""
    state = connection_of(ctx).state
    return cast(Session, state.setdefault(_STATE, Session()))
