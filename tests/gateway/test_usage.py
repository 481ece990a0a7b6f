"""How tools were used: counted by outcome, summed over processes and restarts, shown to operators alone."""

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.gateway.hosts import Place, toolbox_place
from tests.service import TIMEOUT_S, agent, assert_good, assert_problem, ingest, manifest, process, served, until
from waygraph import Principal, Settings
from waygraph.api.cli.app import main
from waygraph.api.mcp.calls import CallRecord
from waygraph.registry.model.errors import InvalidQuery, NotAllowed, UnknownName
from waygraph.registry.model.usage import ToolUsage, bucket_of
from waygraph.registry.registry import Registry
from waygraph.registry.storage import usage_file
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.usage_file import MOST_UNWRITTEN, UsageCounter, open_usage

POLICY = """
[[rules]]
match = "box/erase"
verdict = "deny"
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_file, "USAGE_EVERY_S", 0.02)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("WAYGRAPH_DATA_DIR", str(tmp_path / "data"))
    return toolbox_place(tmp_path)


def settings(tmp_path: Path, **more: object) -> Settings:
    (tmp_path / "policy.toml").write_text(POLICY)
    return Settings(data_dir=str(tmp_path / "data"), policy_file=str(tmp_path / "policy.toml"), **more)  # type: ignore[arg-type]


def by_tool(used: list[ToolUsage]) -> dict[str, dict[str, int]]:
    """Tool → outcome → how often, without zeros."""
    kinds = ("ok", "tool_error", "refused", "upstream_failed", "timed_out", "cancelled")
    return {each.tool_id: {kind: n for kind in kinds if (n := getattr(each, kind))} for each in used}


def call(client: httpx2.Client, tool: str, **more: object) -> int:
    return client.post(f"/v1/tools/box/{tool}/call", json=more).status_code


EXPECTED = {
    "box/add": {"ok": 2, "refused": 1},
    "box/erase": {"refused": 1},
    "box/fail": {"tool_error": 1},
    "box/refuse": {"upstream_failed": 1},
    "box/wait": {"timed_out": 1},
}


def test_every_way_that_a_call_ends_is_counted(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For `GET /v1/usage`, the command, a client and /metrics; a restart loses nothing."""
    chosen = settings(tmp_path)
    with served(place.registry, settings=chosen) as service:
        client = service.client()
        for arguments in ({"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": "SECRET"}):
            call(client, "add", arguments=arguments)
        assert (call(client, "erase"), call(client, "fail")) == (403, 200)
        assert (call(client, "refuse"), call(client, "wait", timeout_s=0.3)) == (502, 504)
        assert call(client, "nothing") == 404, "of a name that is no tool nothing is kept"
        told = client.get("/metrics").text
        for outcome, count in (("ok", 2), ("tool_error", 1), ("upstream_failed", 1), ("timed_out", 1)):
            assert f'waygraph_tool_call_duration_seconds_count{{outcome="{outcome}"}} {count}.0' in told
        assert 'outcome="refused"}' not in told.partition("call_duration")[2], "what was not sent took no time"
        until(lambda: by_tool(service.registry.operator.usage()) == EXPECTED, "all is written")
    with served(place.registry, settings=chosen) as service:
        assert call(service.client(), "add", arguments={"a": 1, "b": 1}) == 200
        with Registry.open(service.url, environ={}) as there:
            until(lambda: there.operator.usage(limit=1)[0].ok == 3, "what came before the restart is there")
            assert there.operator.usage() == service.registry.operator.usage()
            slowest = max(there.operator.usage(agent_id="box"), key=lambda each: each.p95_ms or 0)
            assert there.operator.usage(agent_id="box", sort="p95", limit=1) == [slowest]
            assert by_tool(there.operator.usage(sort="errors"))["box/erase"] == {"refused": 1}
            assert {each.door for each in there.operator.usage(days=1)} == {"rest"}
            with pytest.raises(InvalidQuery):
                there.operator.usage(limit=0)
            with pytest.raises(UnknownName):
                there.operator.usage(agent_id="nobody")
    assert main(["--registry", str(place.registry), "call", "box/add", "a=1", "b=2"]) == 0
    assert main(["--registry", str(place.registry), "usage", "--sort", "errors", "--json"]) == 0
    used = json.loads(capsys.readouterr().out.splitlines()[-1])["usage"]
    ids = ["box/fail", "box/refuse", "box/wait", "box/add", "box/add", "box/erase"]
    assert [each["tool_id"] for each in used] == ids
    assert [each["door"] for each in used].index("program") == 3
    assert used[2]["p50_ms"] >= 270
    assert used[5]["p50_ms"] is None
    [kept] = (tmp_path / "data").glob("usage.sqlite")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert b"SECRET" not in kept.read_bytes()


def test_only_operators_see_it(tmp_path: Path) -> None:
    with served(tmp_path / "r.grafeo", auth=True, folder=tmp_path, settings=settings(tmp_path)) as service:
        ingest(service.admin(), "s", agent("a", "look"))
        for caller in (service.caller("admin", groups=("g",)), service.caller("read", "use", everything=True)):
            assert_problem(caller.get("/v1/usage"), 403, NotAllowed)
        assert assert_good(service.caller("admin", everything=True).get("/v1/usage")) == {"usage": []}


def filled(path: Path, chosen: Settings, *agents: dict[str, object]) -> LocalRegistry:
    with served(path, settings=chosen) as service:
        assert_good(service.client().post("/v1/manifests", json=manifest("s", *agents)))
    return LocalRegistry.open(path, settings=chosen, environ={})


def test_counts_of_many_processes_and_threads_are_summed(tmp_path: Path) -> None:
    """Counters of their own stand for processes: they meet in the file alone."""
    chosen = settings(tmp_path)
    with filled(tmp_path / "r.grafeo", chosen, agent("a", "look")) as registry:
        counters = [UsageCounter(registry.store, chosen) for _ in range(4)]

        def work(counter: UsageCounter) -> None:
            for number in range(200):
                counter.note("a/look", "ok", number / 1000)
                if number % 50 == 0:
                    counter.write()
            counter.write()

        threads = [threading.Thread(target=work, args=(counter,)) for counter in counters * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [used] = registry.operator.usage()
    assert (used.calls, used.ok) == (1600, 1600)
    assert used.p50_ms == pytest.approx(100, rel=0.1)
    assert used.p95_ms == pytest.approx(190, rel=0.1)


def test_nobody_reads_of_tools_that_are_hidden_or_gone(tmp_path: Path) -> None:
    """Other registries keep their own."""
    chosen = settings(tmp_path)
    path = tmp_path / "r.grafeo"
    with (
        filled(path, chosen, agent("a", "look"), agent("b", "see", visible_to=["crew"])) as registry,
        filled(tmp_path / "other.grafeo", chosen, agent("a", "look")) as other,
    ):
        counter = UsageCounter(registry.store, chosen)
        for tool in ("a/look", "b/see", "gone/tool", "a/look"):
            counter.note(tool, "ok", 0.1)
        counter.write()
        assert [each.tool_id for each in registry.operator.usage()] == ["a/look", "b/see"]
        assert [each.tool_id for each in registry.operator.usage(principal=Principal())] == ["a/look"]
        with pytest.raises(UnknownName):
            registry.operator.usage(agent_id="b", principal=Principal())
        assert other.operator.usage() == []
        assert registry.operator.usage()[0].first_at < registry.operator.usage()[0].last_at


def damage(file: Path) -> None:
    file.write_bytes(b"no database" * 500)


def lock_out(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(("harm", "kept"), [(damage, 2), (lock_out, 0)])
def test_a_file_that_cannot_be_used_stops_no_call(
    harm: Callable[[Path], None], kept: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged one is begun anew; what another one does not take waits, up to a limit, and is said once."""
    chosen, file = settings(tmp_path), tmp_path / "data" / "usage.sqlite"
    with filled(tmp_path / "r.grafeo", chosen, agent("a", "look")) as registry:
        counter = UsageCounter(registry.store, chosen)
        counter.note("a/look", "ok", 0.1)
        counter.write()
        for left in file.parent.glob("usage.sqlite-*"):
            left.unlink()
        harm(file)
        for _ in range(2):
            counter.note("a/look", "ok", 0.1)
            with caplog.at_level(logging.WARNING):
                counter.write()
        assert sum(count.calls for count in counter._counted.values() if count.of == "tool") == 2 - kept
        assert sum("usage.sqlite" in record.getMessage() for record in caplog.records) == 1
        if kept:
            assert registry.operator.usage()[0].calls == kept
            return
        for number in range(MOST_UNWRITTEN):
            counter.note(f"a/{number}", "ok", 0.1)
        counter.write()
        assert len(counter._counted) < 10
        file.rmdir()
        counter.note("a/look", "ok", 0.1)
        counter.write()
        assert registry.operator.usage()[0].calls == 1


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    off = settings(tmp_path, usage=False)
    with filled(tmp_path / "r.grafeo", off, agent("a", "look")) as registry, open_usage(registry.store, off) as none:
        assert none is None
    assert not (tmp_path / "data" / "usage.sqlite").exists()
    with LocalRegistry.open(":memory:", environ={}) as memory, open_usage(memory.store, Settings()) as none:
        assert none is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(asyncio.CancelledError(), "cancelled"), (TimeoutError(), "timed_out"), (RuntimeError(), "upstream_failed")],
)
def test_a_call_that_ends_by_an_error_has_an_outcome(error: BaseException, outcome: str) -> None:
    assert CallRecord().outcome(error) == outcome


def test_durations_fall_into_a_bounded_number_of_buckets() -> None:
    assert [bucket_of(seconds) for seconds in (0.0, 0.001, 0.002, 1e9)] == [0, 0, 4, 88]


@pytest.mark.full
def test_workers_that_are_stopped_have_written_all(place: Place, tmp_path: Path) -> None:
    with process(place.registry, tmp_path, "--workers", "2") as running:
        add = {"arguments": {"a": 1, "b": 2}}
        for _ in range(40):  # each over a connection of its own, so that both workers get some
            assert_good(httpx2.post(f"{running.url}/v1/tools/box/add/call", json=add, timeout=TIMEOUT_S))
        running.signal(signal.SIGTERM)
        running.wait()
    with LocalRegistry.open(place.registry, environ=os.environ) as registry:
        assert by_tool(registry.operator.usage()) == {"box/add": {"ok": 40}}
