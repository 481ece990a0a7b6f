"""All pages of a list, whatever the server makes of them. A page that fails fails the list: half of one is none."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waygraph.registry.errors import UpstreamRefused
from waygraph.registry.settings import Settings

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Method and parameters to the result, unchecked. Raises UpstreamError."""


class NotOffered(UpstreamRefused):
    """The server does not know the method."""


@dataclass(slots=True)
class Items:
    """What a list holds. `lasts_s`: for how long, in the word of the page that says least; None: not said."""

    items: list[Any] = field(default_factory=list)
    lasts_s: float | None = None


async def all_of(ask: Ask, method: str, name: str, settings: Settings) -> Items:
    """The items of all pages, in order, under `name`. Raises UpstreamError, also for a list without end."""
    found, cursor, seen, size = Items(), "", set[str](), 0
    for _ in range(settings.upstream_max_pages):
        page = await ask(method, {"cursor": cursor} if cursor else {})
        items = page.get(name)
        if not isinstance(items, list):
            raise UpstreamRefused(f"{method}: its answer has no list of {name}")
        found.items += items
        found.lasts_s = _shorter(found.lasts_s, page.get("ttlMs"))
        size += len(json.dumps(page, ensure_ascii=False))
        _refuse_too_much(method, name, len(found.items), size, settings)
        cursor = _next(method, page.get("nextCursor"))
        if not cursor:
            return found
        if cursor in seen:
            raise UpstreamRefused(f"{method}: a cursor comes again, so that the list has no end")
        seen.add(cursor)
    most = settings.upstream_max_pages
    raise UpstreamRefused(f"{method}: more than {most:,} pages (WAYGRAPH_UPSTREAM_MAX_PAGES)")


async def number_of(ask: Ask, method: str, name: str, settings: Settings) -> int:
    """How many there are, 0 where the server does not say: a count is no reason to lose the tools.

    Raises UpstreamUnreachable.
    """
    try:
        return len((await all_of(ask, method, name, settings)).items)
    except UpstreamRefused:
        return 0


def _refuse_too_much(method: str, name: str, count: int, size: int, settings: Settings) -> None:
    if count > (most := settings.upstream_max_tools):
        raise UpstreamRefused(f"{method}: more than {most:,} {name} (WAYGRAPH_UPSTREAM_MAX_TOOLS)")
    if size > (most := settings.upstream_max_listing_bytes):
        raise UpstreamRefused(f"{method}: more than {most:,} bytes (WAYGRAPH_UPSTREAM_MAX_LISTING_BYTES)")


def _next(method: str, cursor: object) -> str:
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise UpstreamRefused(f"{method}: its cursor is no string")
    return cursor


def _shorter(known: float | None, ttl_ms: object) -> float | None:
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float) or ttl_ms != ttl_ms:  # noqa: PLR0124 - not NaN
        return known
    said = max(0.0, ttl_ms / 1000)
    return said if known is None else min(known, said)
