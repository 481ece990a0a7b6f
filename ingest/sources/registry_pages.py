"""The pages of an MCP registry's list of servers, over HTTP (API v0.1), within limits of number, size and time.

Redirects are not followed, and nothing compressed is taken, so that a limit of bytes is one.
"""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx2

from waygraph.registry.backoff import wait_s
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.machine.coding import IDENTITY, coding_of
from waygraph.registry.machine.proxies import UnusableProxy, http_client
from waygraph.registry.settings import Settings

PAGE_ENTRIES = 100
"""Asked for; a page may have fewer, or more."""
_PASSING = frozenset({429, 500, 502, 503, 504})
_BROKEN = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)


class Unread(Exception):
    """Why the list cannot be read on."""


class _Passing(Exception):
    """That a page cannot be read now. `retry_after`: the header, if there is one."""

    def __init__(self, seen: str, retry_after: str | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What waiting and chance are. `clock` gives seconds that only grow, `jitter` a number in [0, 1)."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The entries of all pages read. `fault`: why the rest could not be; empty: there is none."""

    entries: list[object]
    fault: str = ""


@dataclass(slots=True, kw_only=True)
class RegistryPages:
    """`url`: of the list. `query`: what is asked of each page beside its cursor. `headers` may hold a secret."""

    url: str
    query: Mapping[str, str]
    settings: Settings
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    progress: Progress | None = None
    world: World = field(default_factory=World)
    _left_bytes: int = 0
    _ends_at: float = 0.0

    def fetch(self) -> Fetched:
        """Raises Unread if not even the first page can be read."""
        self._left_bytes = self.settings.max_source_bytes
        self._ends_at = self.world.clock() + self.settings.mcp_registry_total_s
        entries: list[object] = []
        seen, cursor = set[str](), ""
        with self._client() as client:
            for number in range(self.settings.mcp_registry_max_pages):
                try:
                    page, cursor = self._page(client, cursor)
                except Unread as exc:
                    if not number:
                        raise
                    return Fetched(entries=entries, fault=f"{exc}; {number} pages were read")
                entries += page
                if self.progress:
                    self.progress(len(entries), 0)
                if not cursor:
                    return Fetched(entries=entries)
                if cursor in seen:
                    return Fetched(entries=entries, fault="gives a cursor again that it gave before")
                seen.add(cursor)
        most = self.settings.mcp_registry_max_pages
        return Fetched(entries=entries, fault=f"has more than {most} pages (WAYGRAPH_MCP_REGISTRY_MAX_PAGES)")

    def _client(self) -> httpx2.Client:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **self.headers}
        timeout_s = self.settings.mcp_registry_timeout_s
        try:
            return http_client(httpx2.Client, headers=headers, timeout=timeout_s, follow_redirects=False)
        except UnusableProxy as exc:
            raise Unread(str(exc)) from exc

    def _page(self, client: httpx2.Client, cursor: str) -> tuple[list[object], str]:
        """Its entries, and the cursor of the next one; empty if it is the last."""
        content = self._patiently_read(client, {**self.query, **({"cursor": cursor} if cursor else {})})
        try:
            page = json.loads(content)
        except (ValueError, RecursionError):
            raise Unread("answers with what is no JSON") from None
        listed = page.get("servers") if isinstance(page, dict) else None
        if not isinstance(page, dict) or "servers" not in page or not isinstance(listed, list | None):
            raise Unread("answers with what is no list of servers")
        metadata = page.get("metadata")
        told = metadata if isinstance(metadata, dict) else {}
        following = told.get("nextCursor", told.get("next_cursor"))
        return listed or [], following if isinstance(following, str) else ""

    def _patiently_read(self, client: httpx2.Client, query: Mapping[str, str]) -> bytes:
        """Asks again after what may pass, at most `mcp_registry_retries` times and while there is time."""
        attempt = 0
        while True:
            try:
                return self._read(client, query)
            except _Passing as passing:
                pause_s = wait_s(attempt, passing.retry_after, self.world.jitter)
                if attempt == self.settings.mcp_registry_retries or self.world.clock() + pause_s > self._ends_at:
                    raise Unread(f"still {passing} after {attempt + 1} tries") from None
            self.world.sleep(pause_s)
            attempt += 1

    def _read(self, client: httpx2.Client, query: Mapping[str, str]) -> bytes:
        """Raises _Passing for what may be otherwise the next time."""
        try:
            with client.stream("GET", self.url, params=dict(query)) as response:
                return self._content(response)
        except _BROKEN:
            raise _Passing("breaks the connection") from None
        except httpx2.TimeoutException:
            raise Unread(f"did not answer within {self.settings.mcp_registry_timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            raise Unread(f"cannot be reached: {exc or type(exc).__name__}") from None

    def _content(self, response: httpx2.Response) -> bytes:
        if response.status_code in _PASSING:
            raise _Passing(f"answers {response.status_code}", response.headers.get("retry-after"))
        if response.status_code != 200:
            moved = "; redirects are not followed" if response.is_redirect else ""
            raise Unread(f"answers {response.status_code}{moved}")
        if coding_of(response) != IDENTITY:
            raise Unread("answers with a compressed body, which was not asked for")
        content = bytearray()
        for part in response.iter_raw():
            content += part
            self._left_bytes -= len(part)
            if self._left_bytes < 0:
                most = self.settings.max_source_bytes
                raise Unread(f"has more than the {most} bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)")
            if self.world.clock() > self._ends_at:
                most_s = self.settings.mcp_registry_total_s
                raise Unread(f"did not end within {most_s:g} s (WAYGRAPH_MCP_REGISTRY_TOTAL_S)")
        return bytes(content)
