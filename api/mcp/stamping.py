"""The HTTP headers of a message that came over stdio, where there are none (MCP 2026-07-28, Transports)."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.types import PROTOCOL_VERSION_META_KEY, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest


class Stamp:
    """Of one host: `version` is what its handshake agreed on, empty before it and in the modern era."""

    def __init__(self) -> None:
        self.version = ""
        self._mirrored: dict[str, Mapping[tuple[str, ...], str]] = {}

    def learn(self, listed: Mapping[str, Any]) -> None:
        """From a result of tools/list: which arguments of a tool its calls mirror in headers."""
        tools = listed.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            schema = tool.get("inputSchema") if isinstance(tool, Mapping) else None
            if isinstance(schema, Mapping) and find_invalid_x_mcp_header(schema) is None:
                self._mirrored[str(tool.get("name"))] = x_mcp_header_map(schema)

    def stamped(self, message: JSONRPCMessage) -> SessionMessage:
        """The message as the SDK's transport takes it."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification) or message.method == "initialize":
            return SessionMessage(message)
        params = message.params or {}
        if isinstance(version := spoken_version(params), str):
            headers = {MCP_PROTOCOL_VERSION_HEADER: version, **self._modern(message.method, params)}
        else:
            headers = {MCP_PROTOCOL_VERSION_HEADER: self.version} if self.version else {}
        return SessionMessage(message, ClientMessageMetadata(headers=headers))

    def _modern(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {MCP_METHOD_HEADER: method}
        key = NAME_BEARING_METHODS.get(method)
        name = params.get(key) if key else None
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        arguments = params.get("arguments")
        if method == "tools/call" and isinstance(arguments, Mapping):
            headers |= mcp_param_headers(self._mirrored.get(str(name), {}), arguments)
        return headers


def spoken_version(params: Mapping[str, Any]) -> object:
    """What a message of the modern era says of itself; None in the handshake era."""
    meta = params.get("_meta")
    return meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
