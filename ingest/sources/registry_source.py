"""An MCP registry as a source: its list of servers over HTTP (API v0.1), whole or what changed since a time.

Its pages are fetched as any document is, within limits of number, size and time. The official one is
https://registry.modelcontextprotocol.io; a subregistry speaks the same API.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import urlencode

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import Intake, Manifest
from waygraph.ingest.sources.fetch import FetchFailed, Fetching, fetch
from waygraph.ingest.sources.formats import mcp_registry
from waygraph.ingest.sources.kinds import REGISTRY_PREFIX
from waygraph.ingest.sources.read import Parts
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.http.addresses import names_user, split_url
from waygraph.registry.http.client import wait_s
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import agent_id
from waygraph.registry.model.settings import Settings

TOTAL_S = 900.0
"""For all pages, repeats included."""
MAX_PAGES = 5_000
RETRIES = 4
"""How often a page is asked for again."""
PAGE_ENTRIES = 100
"""Asked for; a page may have fewer, or more."""


class Unread(Exception):
    """Why the list cannot be read on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What waiting and chance are. `clock` gives seconds that only grow, `jitter` a number in [0, 1)."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


OFFICIAL_URL = "https://registry.modelcontextprotocol.io"
OFFICIAL_NAMESPACE = "mcp-registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySource:
    """Made by `open_registry`, which checks what is given."""

    url: str
    """Of the list of servers."""
    settings: Settings
    name: str
    namespace: str
    since: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    progress: Progress | None = None
    """Called with the entries read so far, and 0: how many there are is not told."""
    world: World = field(default_factory=World)

    def read(self) -> Manifest:
        return self.parts().manifest

    def parts(self, *, asks: bool = False) -> Parts:
        """Partial if only what changed was asked for, or some pages could not be read. `asks`: with those of its
        servers that have an open remote. Raises SourceError.
        """
        entries, fault = self._fetch()
        # Of what changed, only latest versions: an older one that changed says nothing of the agent.
        latest = [entry for entry in entries if not (self.since and mcp_registry.is_superseded(entry))]
        document, intake = {"servers": latest}, Intake(where=self.url)
        for record in mcp_registry.read(document, self.url, intake):
            intake.take(record)
        if fault:
            intake.reject_agent("", fault)
        servers = tuple(mcp_registry.servers(document, self.url, Intake(where=self.url))) if asks else ()
        manifest, is_part = intake.manifest(self.name, self.namespace), bool(self.since)
        return Parts(manifest=replace(manifest, partial=manifest.partial or is_part, is_part=is_part), servers=servers)

    def _fetch(self) -> tuple[list[object], str]:
        """The entries of all pages that can be read, and why the rest cannot; empty: there is none. Raises SourceError
        if not even the first one can be.
        """
        ends_at, room_bytes = self.world.clock() + TOTAL_S, self.settings.max_source_bytes
        entries: list[object] = []
        cursors, cursor = set[str](), ""
        for number in range(MAX_PAGES):
            try:
                content = self._patiently_read(cursor, ends_at)
                if (room_bytes := room_bytes - len(content)) < 0:
                    most = self.settings.max_source_bytes
                    raise Unread(f"has more than the {most} bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)")
                page, cursor = _page(content)
            except Unread as exc:
                if not number:
                    raise SourceError(self.url, str(exc)) from None
                return entries, f"{exc}; {number} pages were read"
            entries += page
            if self.progress:
                self.progress(len(entries), 0)
            if not cursor:
                return entries, ""
            if cursor in cursors:
                return entries, "gives a cursor again that it gave before"
            cursors.add(cursor)
        return entries, f"has more than {MAX_PAGES} pages"

    def _patiently_read(self, cursor: str, ends_at: float) -> bytes:
        """Asks again after what may pass, at most RETRIES times and while there is time."""
        query = {"limit": str(PAGE_ENTRIES), "version": "latest"}
        if self.since:
            query |= {"updated_since": self.since, "include_deleted": "true"}
        address = f"{self.url}?{urlencode(query | ({'cursor': cursor} if cursor else {}))}"
        attempt, world = 0, self.world
        while world.clock() < ends_at:
            try:
                return fetch(address, Fetching(settings=self.settings, headers=self.headers)).content
            except FetchFailed as error:
                if not error.may_pass:
                    raise Unread(error.reason) from None
                pause_s = wait_s(attempt, error.retry_after, world.jitter)
                if attempt == RETRIES or world.clock() + pause_s > ends_at:
                    raise Unread(f"still {error.reason} after {attempt + 1} tries") from None
            world.sleep(pause_s)
            attempt += 1
        raise Unread(f"did not end within {TOTAL_S:g} s")


def _page(content: bytes) -> tuple[list[object], str]:
    """Its entries, and the cursor of the next one; empty if it is the last. Raises Unread."""
    try:
        page = json.loads(content)
    except (ValueError, RecursionError):
        raise Unread("answers with what is no JSON") from None
    entries = page.get("servers") if isinstance(page, dict) else None
    if not isinstance(page, dict) or "servers" not in page or not isinstance(entries, list | None):
        raise Unread("answers with what is no list of servers")
    metadata = fields_of(page.get("metadata"))
    following = metadata.get("nextCursor", metadata.get("next_cursor"))
    return entries or [], following if isinstance(following, str) else ""


def open_registry(
    url: str,
    settings: Settings,
    *,
    since: str = "",
    source: str = "",
    namespace: str = "",
    headers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    world: World | None = None,
) -> RegistrySource:
    """`url` empty: the official one; else a registry's address, or that of its list. `since`: RFC 3339, with a zone.

    Raises SourceError for an address or a time that is none.
    """
    base = _base(url or OFFICIAL_URL)
    parts, last = split_url(base), base.rpartition("/")[2]
    host = parts.hostname if parts else None
    is_official = f"{base}/".startswith(f"{OFFICIAL_URL}/")
    end = "" if last == "servers" else "/servers" if last in {"v0", "v0.1"} else "/v0.1/servers"
    return RegistrySource(
        url=f"{base}{end}",
        settings=settings,
        name=source or f"{REGISTRY_PREFIX}{base}",
        namespace=namespace or (OFFICIAL_NAMESPACE if is_official or not host else agent_id(host)),
        since=_checked_time(since) if since else "",
        headers=headers or {},
        progress=progress,
        world=world or World(),
    )


def _base(url: str) -> str:
    """Refused addresses are not repeated: one may hold a password."""
    parts = split_url(url)
    if parts is None or parts.scheme not in {"https", "http"} or not parts.hostname or not url.isprintable():
        raise SourceError(REGISTRY_PREFIX, f"expected the address of a registry, such as {OFFICIAL_URL}")
    if names_user(url) or "?" in url or "#" in url:
        raise SourceError(
            REGISTRY_PREFIX, "an address is shown and stored: it may hold no login, `?` or `#`; use --header"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _checked_time(since: str) -> str:
    with suppress(ValueError):
        if (time := datetime.fromisoformat(since)).tzinfo is not None:
            return time.isoformat().replace("+00:00", "Z")
    raise SourceError("since", f"expected a time such as 2026-11-21T08:00:00Z, found {since[:40]!r}")
