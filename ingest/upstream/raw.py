"""One request whose result comes back as the wire had it.

The SDK checks a result against the protocol's schema, where one bad tool fails its whole page. Below that check stands
its dispatcher, which is private: `tests/upstream/test_raw.py` says what to do when it moves.
"""

from collections.abc import Mapping
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions


async def raw_request(session: ClientSession, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result, unchecked. Stamped as the era asks: headers, and `_meta` in the modern one. Raises MCPError."""
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {}
    session._stamp(data, options)
    return await session._dispatcher.send_raw_request(method, data["params"] or None, options)
