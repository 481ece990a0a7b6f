"""Sources and real servers followed into a registry, in this process."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_cli_pages import misfit
from tests.live_http import free_port
from tests.mcp_stubs import Servers, Watched, http_servers, stdio_server, until, watched, write_at_once, write_config
from tests.processes_left import left_of, needs_proc, none_left
from tests.service import process
from waygraph import Filters, Query, Settings
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
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
from waygraph.registry.registry import Registry
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


PROGRAM = [sys.executable, "-W", "error", "-m", "waygraph.api.cli.app"]
STOP_S = 30.0
"""Far more than the two seconds that are promised and printed: a busy machine decides no test."""


class Watching:
    """A running `waygraph watch`."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path) -> None:
        self.process, self._said = process, said

    @property
    def text(self) -> str:
        return self._said.read_text(encoding="utf-8")

    @property
    def events(self) -> list[dict[str, Any]]:
        """Whole lines of JSON."""
        lines = (line for line in self.text.splitlines(keepends=True) if line.endswith("\n"))
        return [json.loads(line) for line in lines if not line.startswith("note: ")]

    def until_online(self, count: int) -> None:
        until(lambda: self._ended() or len(self._online()) >= count, f"{count} servers online")
        assert not self._ended(), self.text

    def _online(self) -> set[str]:
        return {event["server"] for event in self.events if event["event"] == "listed"}

    def _ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def watching(folder: Path, *arguments: str, stdout: int | None = None) -> Iterator[Watching]:
    said = folder / "said.txt"
    options = ["--registry", str(folder / "r.grafeo"), "--embedder", "none"]
    with said.open("wb") as out:
        running = subprocess.Popen(
            [*PROGRAM, *options, "watch", *arguments], stdout=stdout or out, stderr=out, stdin=subprocess.DEVNULL
        )
    try:
        yield Watching(running, said)
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@needs_proc
def test_it_stops_with_its_servers(
    tmp_path: Path, mark: str, number: signal.Signals, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """On SIGTERM with 0, on SIGINT with 130; every server's process has ended before its own."""
    config = write_config(tmp_path / "mcp.json", {name: stdio_server(name, mark) for name in ("a", "b")})
    with watching(tmp_path, str(config), "--json") as running:
        running.until_online(2)
        assert len(left_of(mark)) >= 2
        running.process.send_signal(number)
        began = time.monotonic()
        assert running.process.wait(STOP_S) == status
        with capfd.disabled():
            print(f" stopped in {time.monotonic() - began:.2f} s", end="")  # noqa: T201
        assert left_of(mark) == []
        assert "Traceback" not in running.text


@needs_proc
def test_each_event_is_a_line_of_json(tmp_path: Path, mark: str) -> None:
    """What came of each server and of the registry, each with its time."""
    config = write_config(tmp_path / "mcp.json", {"a": stdio_server("a", mark), "b": {"command": "/no/such"}})
    with watching(tmp_path, str(config), "--json", "--once") as running:
        assert running.process.wait(60) == 0, running.text
    events = running.events
    assert all(event["at"] for event in events)
    assert [misfit(event, f"watch: {event['event']}") for event in events] == ["" for _ in events]
    told = {(event.get("server", ""), event["event"]) for event in events}
    assert {("a", "starting"), ("a", "listed"), ("b", "unreachable"), ("", "source-read"), ("", "synced")} <= told
    [synced] = [event for event in events if event["event"] == "synced"]
    assert synced["report"]["tools"]["created"] == ["a/a_tool"]
    [listed] = [event for event in events if event["event"] == "listed"]
    assert (listed["source"], listed["tools"]) == (str(config), 1)


@needs_proc
def test_killed_it_leaves_no_process(tmp_path: Path, mark: str, capfd: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path / "mcp.json", {f"s{n}": stdio_server(f"s{n}", mark) for n in range(3)})
    with watching(tmp_path, str(config), "--json") as running:
        running.until_online(3)
        running.process.kill()
        began = time.monotonic()
        assert none_left(mark, STOP_S)
        with capfd.disabled():
            print(f" all gone in {time.monotonic() - began:.2f} s", end="")  # noqa: T201


@needs_proc
def test_without_a_source_it_follows_what_the_registry_knows(tmp_path: Path, mark: str) -> None:
    with watching(tmp_path) as running:
        assert running.process.wait(60) == 1
        assert "there is no registry at" in running.text
    with Registry.open(tmp_path / "r.grafeo", embedder="none") as registry:
        sync(registry, Manifest(source="npx some-server"))
    with watching(tmp_path) as running:
        assert running.process.wait(60) == 1
        assert "name a source" in running.text
    config = write_config(tmp_path / "mcp.json", {"a": stdio_server("a", mark)})
    with watching(tmp_path, str(config), "--once") as running:
        assert running.process.wait(60) == 0, running.text
    with watching(tmp_path, "--once", "--json") as running:
        assert running.process.wait(60) == 0, running.text
    assert "note: not followed, since no file or folder of this machine: npx some-server\n" in running.text
    assert {event["server"] for event in running.events if event["event"] == "listed"} == {"a"}


@pytest.mark.parametrize("workers", ["1", "2"])
@needs_proc
def test_a_service_follows_sources(tmp_path: Path, mark: str, workers: str) -> None:
    """It answers from what it knows at once, has the tools when they are there, and ends with its servers."""
    config = write_config(tmp_path / "mcp.json", {"a": stdio_server("a", mark)})
    options = ["--workers", workers, "--watch", str(config)]
    audit = tmp_path / "audit.jsonl"
    with process(tmp_path / "r.grafeo", tmp_path, *options, environ={"WAYGRAPH_AUDIT_FILE": str(audit)}) as running:
        client = running.client()
        assert client.get("/healthz").status_code == 200
        until(lambda: [a["id"] for a in client.get("/v1/agents").json().get("agents", ())] == ["a"], "the agent")
        until(lambda: 'agents_by_status{status="online"} 1.0' in client.get("/metrics").text, "its status")
        running.signal(signal.SIGTERM)
        assert running.wait() == 0
        assert left_of(mark) == []
        assert "Traceback" not in running.told
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(line["caller"], line["action"], line["outcome"]) for line in lines} == {("watch", "ingest", "ok")}
    assert {line["target"] for line in lines} == {str(config)}
