"""An MCP registry on a free loopback port, speaking its API v0.1: pages by cursor, `updated_since`, tombstones.

Real sockets; entries and troubles as told.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.http_doubles import Quiet, serving

OFFICIAL = "io.modelcontextprotocol.registry/official"


@dataclass
class FakeMcpRegistry:
    """What it lists, how it behaves, and what it was asked. Change the fields while it runs."""

    url: str = ""
    entries: list[dict[str, Any]] = field(default_factory=list)
    page_entries: int = 3
    """At most so many a page, whatever is asked."""
    troubles: list[tuple[int, str | None]] = field(default_factory=list)
    """(status, Retry-After) of the answers before the first good one."""
    broken_connections: int = 0
    endless: bool = False
    """Each page names another cursor, and none is the last."""
    same_cursor: bool = False
    fails_from: int | None = None
    """From this offset on every page is refused with 500."""
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drip_s: float = 0.0
    """Between the bytes of an answer, so long."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """The query of each."""
    authorizations: list[str | None] = field(default_factory=list)


def entry(name: str, *, latest: bool = True, status: str = "active", at: str = "2026-01-01", **server: Any) -> Any:
    """As the API wraps it. `at`: when it was last updated."""
    told = {"status": status, "isLatest": latest, "publishedAt": f"{at}T00:00:00Z", "updatedAt": f"{at}T00:00:00Z"}
    document = {"name": name, "description": f"What {name} does", "version": "1.0.0", **server}
    return {"server": document, "_meta": {OFFICIAL: told}}


@contextmanager
def fake_mcp_registry(*entries: dict[str, Any]) -> Iterator[FakeMcpRegistry]:
    fake = FakeMcpRegistry(entries=list(entries))
    with serving(_answering_for(fake)) as address:
        fake.url = address
        yield fake


def _answering_for(fake: FakeMcpRegistry) -> type[BaseHTTPRequestHandler]:
    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            fake.requests.append(query)
            fake.authorizations.append(self.headers.get("Authorization"))
            if fake.broken_connections:
                fake.broken_connections -= 1
                self.close_connection = True
                return
            if fake.troubles:
                status, retry_after = fake.troubles.pop(0)
                self._send(status, b"{}", {"Retry-After": retry_after} if retry_after else {})
            elif parts.path != "/v0.1/servers":
                self._send(404, b'{"title": "Not Found"}', {})
            elif fake.fails_from is not None and int(query.get("cursor", "0")) >= fake.fails_from:
                self._send(500, b"{}", {})
            else:
                self._send(200, fake.body if fake.body is not None else _page(fake, query), fake.headers)

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for part in [body[i : i + 1] for i in range(len(body))] if fake.drip_s else [body]:
                    self.wfile.write(part)
                    time.sleep(fake.drip_s)
            except OSError:  # who asked has gone
                self.close_connection = True

    return Endpoint


def _page(fake: FakeMcpRegistry, query: dict[str, str]) -> bytes:
    offset = int(query.get("cursor", "0"))
    size = min(int(query.get("limit", "30")), fake.page_entries)
    listed = [item for item in fake.entries if _is_asked_for(item, query)]
    page, rest = listed[offset : offset + size], len(listed) - offset - size
    metadata: dict[str, Any] = {"count": len(page)}
    if fake.same_cursor or fake.endless or rest > 0:
        metadata["nextCursor"] = "0" if fake.same_cursor else str(offset + size)
    return json.dumps({"servers": page, "metadata": metadata}).encode()


def _is_asked_for(item: dict[str, Any], query: dict[str, str]) -> bool:
    told = item["_meta"][OFFICIAL]
    since = query.get("updated_since")
    with_deleted = since or query.get("include_deleted") == "true"
    return (
        (query.get("version") != "latest" or told["isLatest"])
        and (told["status"] != "deleted" or bool(with_deleted))
        and (not since or told["updatedAt"] >= since)
    )
