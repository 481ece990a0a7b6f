"""The SDK's context of a request: the connection that it came over, and the session that is remembered there."""

from typing import Any, cast

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from waygraph.api.mcp.gateway import Session

Context = ServerRequestContext[Any, Any]

_STATE = "waygraph.session"


def connection_of(ctx: Context) -> Connection:
    """The connection that a request came over; of a modern host one that ends with the request.

    The SDK documents its `state` for handlers, and gives them no other way to it than this.
    """
    return ctx.session._connection


def session_of(ctx: Context) -> Session:
    """The session of a request that came over HTTP."""
    state = connection_of(ctx).state
    return cast(Session, state.setdefault(_STATE, Session()))
