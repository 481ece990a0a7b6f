"""Errors that a host gets as errors of the protocol, through the SDK.

What an upstream server itself answers as an error of the protocol stays one, with its code, message and data; of what
nobody foresaw the host learns that it happened.
"""

from mcp import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
)

from waygraph.api.mcp.results import Result, as_protocol_has_it, told, unforeseen
from waygraph.registry.model.errors import UpstreamAnswered, WaygraphError

_OF_A_CONNECTION = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, CONNECTION_CLOSED, REQUEST_TIMEOUT, *range(-32029, -32019)}
)
"""Codes that speak of a connection and its two sides. A host would take them for its own connection to the gateway,
end it or agree on another protocol."""


def failed(error: WaygraphError | TimeoutError) -> Result:
    """The error as a tool's result. Raises MCPError for what an upstream server answered in the protocol."""
    if isinstance(error, UpstreamAnswered) and error.code not in _OF_A_CONNECTION:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
    return told(error)


def as_error(error: WaygraphError | TimeoutError) -> MCPError:
    """What is told in place of what is no call's answer."""
    code, message = as_protocol_has_it(error)
    return MCPError(code=code, message=message)


def internal(error: Exception) -> MCPError:
    """What nobody foresaw."""
    code, message = unforeseen(error)
    return MCPError(code=code, message=message)
