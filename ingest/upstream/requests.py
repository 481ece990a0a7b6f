"""Requests whose results come back as the wire had them: one, and a list that is read page by page.

The SDK checks a result against the protocol's schema, where one bad tool fails its whole page. Below that check stands
its dispatcher, which is private: `tests/upstream/test_raw.py` says what to do when it moves.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.types import CLIENT_CAPABILITIES_META_KEY, RequestId

from waygraph.ingest.upstream.connection import LISTS
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused
from waygraph.registry.model.numbers import FAR_S, read_number
from waygraph.registry.model.settings import Settings

MAX_PAGES = 1_000
MAX_LISTING_BYTES = 64 * 1024 * 1024
LIST_FIELDS = {"tools/list": "tools", **LISTS}
"""Methods that list what a server has, each with the field that holds the list."""

Explain = Callable[[MCPError, Mapping[str, Any]], Awaitable[UpstreamError]]
"""The error of a request with these parameters, in our words."""


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


@dataclass(slots=True)
class Items:
    """What a list holds, and for how long, as each of its pages says it."""

    items: list[Any] = field(default_factory=list)
    ttls_ms: list[Any] = field(default_factory=list)

    @property
    def lasts_s(self) -> float | None:
        """In the word of the page that says least; None: not said."""
        numbers = (number for ttl_ms in self.ttls_ms if (number := read_number(ttl_ms)) is not None)
        return min((min(max(0.0, number / 1000), FAR_S) for number in numbers), default=None)


async def all_of(session: ClientSession, explain: Explain, method: str, settings: Settings) -> Items:
    """The items of all pages, in order. Raises UpstreamError, also for a list without end."""
    name = LIST_FIELDS[method]
    result, cursor, cursors, size = Items(), "", set[str](), 0
    for _ in range(MAX_PAGES):
        params = {"cursor": cursor} if cursor else {}
        try:
            page = await raw_request(session, method, params)
        except MCPError as error:
            raise await explain(error, params) from None
        items = [] if page.get(name, "") is None else page.get(name)
        if not isinstance(items, list):
            raise UpstreamRefused(f"{method}: its answer has no list of {name}")
        result.items += items
        result.ttls_ms += [page["ttlMs"]] if "ttlMs" in page else []
        size += len(json.dumps(page, ensure_ascii=False))
        _refuse_too_much(method, name, len(result.items), size, settings)
        if not (cursor := _next(method, page.get("nextCursor"))):
            return result
        if cursor in cursors:
            raise UpstreamRefused(f"{method}: a cursor comes again, so that the list has no end")
        cursors.add(cursor)
    raise UpstreamRefused(f"{method}: more than {MAX_PAGES:,} pages")


async def number_of(session: ClientSession, explain: Explain, method: str, settings: Settings) -> int:
    """How many there are, 0 where the server does not say: a count is no reason to lose the tools.

    Raises UpstreamUnreachable.
    """
    try:
        return len((await all_of(session, explain, method, settings)).items)
    except UpstreamRefused:
        return 0


def _refuse_too_much(method: str, name: str, count: int, size: int, settings: Settings) -> None:
    if count > (most := settings.upstream_max_tools):
        raise UpstreamRefused(f"{method}: more than {most:,} {name} (WAYGRAPH_UPSTREAM_MAX_TOOLS)")
    if size > MAX_LISTING_BYTES:
        raise UpstreamRefused(f"{method}: more than {MAX_LISTING_BYTES:,} bytes")


def _next(method: str, cursor: object) -> str:
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise UpstreamRefused(f"{method}: its cursor is no string")
    return cursor
