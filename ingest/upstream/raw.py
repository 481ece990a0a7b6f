"""One request whose result comes back as the wire had it.

The SDK checks a result against the protocol's schema, where one bad tool fails its whole page. Below that check stands
its dispatcher, which is private: `tests/upstream/test_raw.py` says what to do when it moves.
"""

from collections.abc import Mapping
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.types import CLIENT_CAPABILITIES_META_KEY, RequestId


async def raw_request(
    session: ClientSession,
    method: str,
    params: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    cancels: bool = True,
) -> Mapping[str, Any]:
    """The result, unchecked. Stamped as the era asks: headers, and `_meta` in the modern one. Raises MCPError.

    `capabilities`: what the client can for this request alone, where the era lets a request say so. `cancels`: whether
    the server is told, with a wait of up to 5 s, that nobody waits any more.
    """
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {"cancel_on_abandon": cancels, "headers": dict(headers or {})}
    session._stamp(data, options)
    meta = data["params"].get("_meta") or {}
    if capabilities is not None and CLIENT_CAPABILITIES_META_KEY in meta:
        meta[CLIENT_CAPABILITIES_META_KEY] = dict(capabilities)
    return await session._dispatcher.send_raw_request(method, data["params"] or None, options)


async def raw_cancel(session: ClientSession, request_id: RequestId, reason: str) -> None:
    """Tells the server that nobody waits for that request any more, as the transport does it."""
    await session._dispatcher.notify("notifications/cancelled", {"requestId": request_id, "reason": reason})
