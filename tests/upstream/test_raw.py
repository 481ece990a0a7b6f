"""The one place where the SDK's private parts are used: a result before it is checked."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage

from waygraph.ingest.upstream.calls import raw_cancel, raw_request

BAD_PAGE = {"tools": [{"name": "a", "inputSchema": {}}, {"name": None}, 7], "extra": {"kept": True}}
MODERN = types.DiscoverResult(
    supported_versions=["2026-07-28"],
    capabilities=types.ServerCapabilities(),
    result_type="complete",
    ttl_ms=0,
    cache_scope="public",
)


async def asked(agreed: types.DiscoverResult | None) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The result of a raw request that is answered with BAD_PAGE, and the parameters that were sent."""
    answers, reading = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    writing, requests = anyio.create_memory_object_stream[SessionMessage](1)
    seen: dict[str, Any] = {}
    result: Mapping[str, Any] = {}
    with answers, reading, writing, requests:
        async with ClientSession(dispatcher=JSONRPCDispatcher(reading, writing)) as session:
            if agreed:
                session.adopt(agreed)

            async def answer() -> None:
                request = (await requests.receive()).message
                assert isinstance(request, types.JSONRPCRequest)
                seen.update(request.params or {})
                await answers.send(
                    SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(BAD_PAGE)))
                )

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer)
                result = await raw_request(session, "tools/list", {"cursor": "2"}, capabilities={"roots": {}})
                tasks.start_soon(raw_cancel, session, 1, "why")
                seen["told"] = (await requests.receive()).message.model_dump(by_alias=True, exclude_none=True)
    return result, seen


@pytest.mark.parametrize("agreed", [None, MODERN], ids=["handshake", "modern"])
def test_the_private_way_around_the_check_is_still_there(agreed: types.DiscoverResult | None) -> None:
    """If this fails, the SDK has changed what `ingest/upstream/open.py` uses.

    That is `ClientSession._stamp(data, options)`, which writes the era's headers and `_meta`, and
    `ClientSession._dispatcher` with `send_raw_request(method, params, options)`, which gives the result unchecked, and
    `notify(method, params)`. Look in `ClientSession.send_request` for what took their place, or for a public way to
    have a result that is not validated.
    Only raw.py is to change; until then, pin the SDK below that version in pyproject.toml.
    """
    result, seen = anyio.run(asked, agreed)
    assert result == BAD_PAGE
    assert seen["cursor"] == "2"
    assert ("io.modelcontextprotocol/protocolVersion" in seen.get("_meta", {})) == (agreed is MODERN)
    told = {"requestId": 1, "reason": "why"}
    assert seen["told"] == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told}
    if agreed is MODERN:
        assert seen["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}
