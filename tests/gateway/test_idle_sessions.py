"""What is held of sessions of the handshake era while their hosts are silent, and that they end."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service import Served, agent, ingest, served
from waygraph.registry.model.settings import Settings

VERSION = "2025-06-18"
ACCEPT = {"accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("idle")
    with served(folder / "tools.grafeo", settings=Settings(sessions_per_caller=500)) as running:
        ingest(running.admin(), "one", agent("alpha", "send"))
        yield running


def post(service: Served, session: str, message: dict[str, Any], **headers: str) -> httpx2.Response:
    named = {"mcp-session-id": session, "mcp-protocol-version": VERSION} if session else {}
    return httpx2.post(f"{service.url}/mcp", json=message, headers={**ACCEPT, **named, **headers}, timeout=60)


def open_session(service: Served) -> str:
    hello = post(service, "", HELLO)
    assert hello.status_code == 200, hello.text
    session = hello.headers["mcp-session-id"]
    assert post(service, session, READY).status_code == 202
    return str(session)


def test_an_idle_session_holds_no_request(service: Served) -> None:
    """No connection of HTTP, no header, and so no token of who sent it."""
    kinds = ("RequestResponseCycle", "Headers")

    def count() -> Counter[str]:
        gc.collect()
        return Counter(type(each).__name__ for each in gc.get_objects() if type(each).__name__ in kinds)

    before = count()
    for _ in range(40):
        assert post(service, open_session(service), LIST).status_code == 200
    more = count() - before
    assert more["RequestResponseCycle"] + more["Headers"] < 10


def test_sessions_are_bounded_in_number(tmp_path: Path) -> None:
    with served(tmp_path / "tools.grafeo", settings=Settings(sessions_per_caller=3)) as running:
        ingest(running.admin(), "one", agent("alpha", "send"))
        for _ in range(3):
            open_session(running)
        refused = post(running, "", HELLO)
        assert refused.status_code == 429
