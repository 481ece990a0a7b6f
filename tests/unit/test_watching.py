"""Sources and real servers followed into a registry, in this process."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live_http import free_port
from tests.mcp_stubs import Servers, Watched, http_servers, until, watched, write_at_once, write_config
from waygraph import Filters, Query, Settings
from waygraph.ingest.upstream.connection import SystemClock
from waygraph.ingest.watch.events import (
    NotWritten,
    ServerListed,
    ServerSeen,
    ServerStopped,
    SourceFailed,
    SourceSynced,
    Unreachable,
)
from waygraph.ingest.watch.queue import Writer
from waygraph.ingest.watch.run import FollowedSource
from waygraph.registry.model.files import write_lock
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture
def servers() -> Iterator[Servers]:
    with http_servers(6) as running:
        yield running


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="none") as opened:
        yield opened


def of_server(seen: list[ServerSeen], key: str, kind: type) -> list[ServerSeen]:
    return [each for each in seen if each.key == key and isinstance(each.event, kind)]


def created_tools(seen: Watched) -> list[tuple[str, ...]]:
    return [synced.report.changes.created_tools for synced in seen.of(SourceSynced)]


def test_what_servers_offer_is_routable_also_beside_one_that_never_answers(
    servers: Servers, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Every tool of those that answer; the silent one and the one that is not there keep nobody waiting."""
    named = {f"server-{n}": servers.url(f"server-{n}") for n in range(6)}
    gone = f"http://127.0.0.1:{free_port()}/mcp"
    config = write_config(tmp_path / "mcp.json", {"silent": servers.url("silent"), "gone": gone, **named})
    with watched(registry, config) as seen:
        until(lambda: len(seen.tools) == 18, "every tool")
        until(lambda: of_server(seen.of(ServerSeen), "gone", Unreachable), "the one that is not there")
        assert seen.agents == set(named)
        assert {agent.status for agent in registry.agents()} == {"online"}
        assert not of_server(seen.of(ServerSeen), "silent", ServerListed)
        until(lambda: sum(map(len, created_tools(seen))) == 18, "it is told")


def test_a_tool_that_a_server_tells_of_is_found(servers: Servers, registry: LocalRegistry, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mcp.json", {"one": servers.url("server-1")})
    with watched(registry, config) as seen:
        until(lambda: servers.asked("followed"), "it is listened to")
        servers.add("server-1", "paint_zebra", "Paints a zebra in any colour.")
        until(lambda: "one/paint_zebra" in seen.tools, "the new tool")
        assert registry.find_tools("paint the zebra").matches[0].tool.id == "one/paint_zebra"


def test_an_edited_config_starts_stops_and_removes(servers: Servers, registry: LocalRegistry, tmp_path: Path) -> None:
    """A new server is there, one that is no longer named goes, and the others are not asked anew."""
    config = tmp_path / "mcp.json"
    first = {name: servers.url(f"server-{n}") for n, name in enumerate(["a", "b", "c"])}
    write_config(config, first)
    with watched(registry, config) as seen:
        until(lambda: len(seen.tools) == 9, "the first three")
        write_config(config, {"b": first["b"], "c": first["c"], "d": servers.url("server-3")})
        until(lambda: seen.agents == {"b", "c", "d"}, "a is gone, d is there")
        listed = seen.of(ServerSeen)
        assert of_server(listed, "a", ServerStopped)
        assert len(of_server(listed, "b", ServerListed)) == len(of_server(listed, "c", ServerListed)) == 1


def test_a_config_that_cannot_be_read_changes_nothing(
    servers: Servers, registry: LocalRegistry, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "mcp.json", {"a": servers.url("server-0")})
    with watched(registry, config) as seen:
        until(lambda: seen.agents == {"a"}, "the first one")
        write_at_once(config, '{"mcpServers": {')
        until(lambda: seen.of(SourceFailed), "it cannot be read")
        assert seen.agents == {"a"}
        write_config(config, {"a": servers.url("server-0"), "b": servers.url("server-1")})
        until(lambda: seen.agents == {"a", "b"}, "it can be read again")
        assert len(seen.of(SourceFailed)) == 1


def test_an_unforeseen_error_ends_no_watch(
    registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No thread can be had for a moment, no memory for a write: both are told and logged, and tried again."""
    file = tmp_path / "agents.json"
    write = Writer.write

    def catalogue(*agents: str) -> None:
        told = [{"id": agent, "name": agent, "description": "does"} for agent in agents]
        file.write_text(json.dumps({"waygraph": 1, "agents": told}), encoding="utf-8")

    def without(error: Exception) -> Callable[..., Any]:
        monkeypatch.undo()
        raise error

    catalogue("one")
    with watched(registry, file) as seen:
        until(lambda: seen.agents == {"one"}, "the first one")
        monkeypatch.setattr(FollowedSource, "stamp", lambda _: without(RuntimeError("can't start new thread")))
        until(lambda: seen.of(SourceFailed), "the look that fails")
        assert seen.of(SourceFailed)[0].reason == "RuntimeError: can't start new thread"
        monkeypatch.setattr(Writer, "write", lambda *_: without(MemoryError("none left")))
        catalogue("one", "two")
        until(lambda: seen.agents == {"one", "two"}, "the second one")
        assert [event.reason for event in seen.of(NotWritten)] == ["MemoryError: none left"]
    assert Writer.write is write
    assert "RuntimeError: can't start new thread" in caplog.text


def test_one_slow_look_puts_off_no_edit(
    registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was busy for minutes makes no file a large folder, whose looks are seldom."""
    busy_s, now_s, stamp = [0.0], SystemClock.now_s, FollowedSource.stamp

    def look_slowly(source: FollowedSource) -> object:
        busy_s[0] = 120.0
        return stamp(source)

    monkeypatch.setattr(SystemClock, "now_s", lambda clock: now_s(clock) + busy_s[0])
    file = tmp_path / "agents.json"
    write_at_once(file, json.dumps({"waygraph": 1, "agents": [{"id": "one", "name": "one"}]}))
    with watched(registry, file) as seen:
        until(lambda: seen.agents == {"one"}, "the first one")
        monkeypatch.setattr(FollowedSource, "stamp", look_slowly)
        until(lambda: busy_s[0], "a slow look")
        write_at_once(
            file, json.dumps({"waygraph": 1, "agents": [{"id": each, "name": each} for each in ("one", "two")]})
        )
        until(lambda: seen.agents == {"one", "two"}, "the edit")


def test_a_config_that_loses_most_of_its_servers_keeps_them(
    servers: Servers, registry: LocalRegistry, tmp_path: Path
) -> None:
    """More than half at once is refused and told; what else the config says counts all the same."""
    config = tmp_path / "mcp.json"
    write_config(config, {name: servers.url(f"server-{n}") for n, name in enumerate(["a", "b", "c"])})
    with watched(registry, config) as seen:
        until(lambda: len(seen.tools) == 9, "all three")
        write_config(config, {"d": servers.url("server-3")})
        until(lambda: "d" in seen.agents, "the new one")
        until(lambda: seen.of(SourceFailed), "the refusal")
        assert "--allow-mass-removal" in seen.of(SourceFailed)[0].reason
        assert seen.agents == {"a", "b", "c", "d"}


def test_what_is_held_back_is_not_routed_before_it_is_approved(
    servers: Servers, registry: LocalRegistry, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "mcp.json", {"one": servers.url("server-1")})
    with watched(registry, config, policy="hold") as seen:
        until(lambda: servers.asked("followed") and len(seen.tools) == 3, "the first three")
        servers.add("server-1", "paint_zebra", "Paints a zebra in any colour.")
        until(lambda: "one/paint_zebra" in seen.tools, "the new tool")
        assert registry.tool("one/paint_zebra").pending
        assert "one/paint_zebra" not in {m.tool.id for m in registry.find_tools("paint the zebra").matches}
        registry.operator.approve("one/paint_zebra")
        assert registry.find_tools("paint the zebra").matches[0].tool.id == "one/paint_zebra"


def test_what_is_held_already_is_not_written_again(servers: Servers, registry: LocalRegistry, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mcp.json", {f"s{n}": servers.url(f"server-{n}") for n in range(6)})
    with watched(registry, config) as seen:
        until(lambda: len(seen.tools) == 18, "every tool")
    stamp = registry.stamp
    with watched(registry, config) as seen:
        until(lambda: len([s for s in seen.of(ServerSeen) if isinstance(s.event, ServerListed)]) == 6, "every listing")
        servers.add("server-0", "later")
        until(lambda: "s0/later" in seen.tools, "a change is written")
    [synced] = seen.of(SourceSynced)
    assert synced.report.changes.created_tools == ("s0/later",)
    assert stamp.partition(".")[0] == str(synced.report.revision - 1)


def test_a_server_that_goes_away_stays_as_it_was_and_is_marked(registry: LocalRegistry, tmp_path: Path) -> None:
    """Its last good catalogue is kept; a query for what is reachable leaves it out."""
    with http_servers(2) as servers:
        config = write_config(tmp_path / "mcp.json", {"a": servers.url("server-0")})
        with watched(registry, config) as seen:
            until(lambda: len(seen.tools) == 3, "its tools")
    with watched(registry, config) as seen:
        until(lambda: registry.agent("a").status.startswith("unreachable since "), "its status")
        assert len(seen.tools) == 3
        reachable = Query(text=registry.tools()[0].description, filters=Filters(reachable=True))
        assert not registry.route(reachable).matches


def test_a_registry_that_is_being_written_is_written_later(
    servers: Servers, registry: LocalRegistry, tmp_path: Path
) -> None:
    settings = replace(Settings(), write_timeout_s=0.2)
    config = write_config(tmp_path / "mcp.json", {"a": servers.url("server-0"), "b": servers.url("server-1")})
    with LocalRegistry.open(tmp_path / "other.grafeo", embedder="none", settings=settings) as busy:
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            with write_lock(tmp_path / "other.grafeo", 5):
                held.set()
                release.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(60)
        with watched(busy, config, settings=settings) as seen:
            until(lambda: len(seen.of(NotWritten)) >= 2, "it could not be written")
            release.set()
            until(lambda: sum(map(len, created_tools(seen))) == 6, "all is written")
        holder.join()
