"""`waygraph watch` as a process: what it prints, how it stops, what it leaves."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_cli_pages import misfit
from tests.mcp_stubs import stdio_server, until, write_config
from tests.processes_left import left_of, needs_proc, none_left
from tests.service import process
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry

PROGRAM = [sys.executable, "-W", "error", "-m", "waygraph.api.cli.app"]
STOP_S = 30.0
"""Far more than the two seconds that are promised and printed: a busy machine decides no test."""

pytestmark = needs_proc


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


def test_killed_it_leaves_no_process(tmp_path: Path, mark: str, capfd: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path / "mcp.json", {f"s{n}": stdio_server(f"s{n}", mark) for n in range(3)})
    with watching(tmp_path, str(config), "--json") as running:
        running.until_online(3)
        running.process.kill()
        began = time.monotonic()
        assert none_left(mark, STOP_S)
        with capfd.disabled():
            print(f" all gone in {time.monotonic() - began:.2f} s", end="")  # noqa: T201


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
