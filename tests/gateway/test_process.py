"""The process of `waygraph mcp`, and of a service with the gateway: how they begin, what they write, how they end."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.gateway.hosts import Era, Place, error_of, on_stdio, over_http, toolbox_place
from tests.gateway.test_answers import ENVELOPE, HANDSHAKE
from tests.gateway.test_doors import BARE, HELLO, LIST
from tests.service import Running, process, until

PATIENCE_S = 60.0


PATIENT = """
import sys
from waygraph.api.cli.app import main
from waygraph.api.mcp import stdio
from waygraph.ingest.upstream import stdio
stdio.LAST_S = float(sys.argv.pop(1))
stdio.LEAVE_S = 60.0
sys.exit(main(sys.argv[1:]))
"""
"""The gateway's program, with another time for what runs when its host leaves, and all there is for its servers."""


@contextmanager
def gateway(
    place: Place, *options: str, last_s: float | None = None, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    """`waygraph mcp` with pipes to it. What it writes to stderr goes to a file."""
    launch = on_stdio(place, *options, **environ)
    assert launch.env is not None
    arguments = launch.args
    if last_s is not None:
        arguments = ["-W", "error", "-c", PATIENT, str(last_s), *launch.args[launch.args.index("--registry") :]]
    with (place.folder / "stderr.txt").open("w") as stderr:
        started = subprocess.Popen(
            [launch.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={"PATH": os.environ["PATH"], **launch.env},
            text=True,
        )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        for pipe in (started.stdin, started.stdout):
            if pipe and not pipe.closed:
                pipe.close()


def say(process: subprocess.Popen[str], **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    message: dict[str, Any] = json.loads(process.stdout.readline())
    return message


@pytest.fixture
def begun(toolbox: Place) -> Iterator[subprocess.Popen[str]]:
    with greeted(toolbox) as started:
        yield started


@contextmanager
def greeted(toolbox: Place, last_s: float | None = None) -> Iterator[subprocess.Popen[str]]:
    with gateway(toolbox, last_s=last_s) as started:
        say(started, id=0, method="initialize", params=HELLO["params"])
        assert hear(started)["result"]["protocolVersion"] == HANDSHAKE
        say(started, method="notifications/initialized")
        yield started


def test_only_the_protocol_is_written_to_output(begun: subprocess.Popen[str], toolbox: Place) -> None:
    assert begun.stdin is not None
    begun.stdin.write("this is no JSON\n\n[]\n{}\n")
    say(begun, id=1, method="tools/call", params={"name": "box__add", "arguments": {"a": 1, "b": 2}})
    say(begun, id=2, method="no/such/method")
    say(begun, id=3, method="tools/call", params={"name": 7})
    say(begun, id=4, method="tools/call", params={"name": "box__add", "arguments": []})
    heard: list[dict[str, Any]] = []
    while len(answered := {message["id"] for message in heard if "id" in message}) < 5:
        heard.append(hear(begun))
    assert answered == {1, 2, 3, 4, None}
    begun.stdin.close()
    assert begun.wait(PATIENCE_S) == 0
    assert begun.stdout is not None
    for line in begun.stdout:
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert "audit" in (toolbox.folder / "stderr.txt").read_text()


def test_what_runs_when_its_host_closes_its_side_is_answered(toolbox: Place) -> None:
    with greeted(toolbox, last_s=600.0) as begun:
        say(begun, id=1, method="tools/call", params={"name": "box__add", "arguments": {"a": 1, "b": 2}})
        assert hear(begun)["id"] == 1, "its server runs"
        for number in (2, 3):
            asked = {"name": "box__add", "arguments": {"a": 1, "b": number, "after_s": 0.2}}
            say(begun, id=number, method="tools/call", params=asked)
        out, _ = begun.communicate(timeout=PATIENCE_S)
    answers = {message["id"]: message for message in map(json.loads, out.splitlines())}
    assert [answers[number]["result"]["structuredContent"] for number in (2, 3)] == [{"total": 3}, {"total": 4}]
    assert begun.returncode == 0
    assert [line["outcome"] for line in toolbox.audit[-3:]] == ["ok"] * 3


def test_what_does_not_end_when_its_host_closes_its_side_is_cancelled(toolbox: Place) -> None:
    """Its server is told, the audit has its line, and the host an answer if it still reads."""
    waits, cancelled = toolbox.notes.count("waits"), toolbox.notes.count("cancelled")
    with greeted(toolbox, last_s=0.5) as begun:
        say(begun, id=1, method="tools/call", params={"name": "box__wait", "arguments": {}})
        until(lambda: toolbox.notes.count("waits") > waits, "the call is under way")
        out, _ = begun.communicate(timeout=PATIENCE_S)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1]
    assert begun.returncode == 0
    last = toolbox.audit[-1]
    assert (last["target"], last["outcome"], last["error"]) == ("box/wait", "failed", "CancelledError")
    assert toolbox.notes.count("cancelled") == cancelled + 1


def test_it_ends_when_its_host_closes_its_side(begun: subprocess.Popen[str], toolbox: Place) -> None:
    """Also while a call is under way; and the servers that it started end with it."""
    waits = toolbox.notes.count("waits")
    say(begun, id=1, method="tools/call", params={"name": "box__wait", "arguments": {}})
    until(lambda: toolbox.notes.count("waits") > waits, "the call is under way")
    children = children_of(begun.pid)
    assert children
    assert begun.stdin is not None
    begun.stdin.close()
    assert begun.wait(PATIENCE_S) == 0
    until(lambda: not any(is_alive(child) for child in children), "its servers have ended")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_a_signal_while_its_host_says_nothing(
    begun: subprocess.Popen[str], toolbox: Place, number: signal.Signals
) -> None:
    say(begun, id=1, method="tools/call", params={"name": "box__add", "arguments": {"a": 1, "b": 2}})
    hear(begun)
    children = children_of(begun.pid)
    assert children
    begun.send_signal(number)
    assert begun.wait(PATIENCE_S) == 0
    until(lambda: not any(is_alive(child) for child in children), "its servers have ended")


def test_servers_end_when_it_is_killed(begun: subprocess.Popen[str]) -> None:
    say(begun, id=1, method="tools/call", params={"name": "box__add", "arguments": {"a": 1, "b": 2}})
    hear(begun)
    children = children_of(begun.pid)
    assert children
    begun.kill()
    begun.wait(PATIENCE_S)
    until(lambda: not any(is_alive(child) for child in children), "its servers have ended")


@pytest.mark.parametrize("variable", ["WAYGRAPH_POLICY_FILE", "WAYGRAPH_SERVICES_FILE"])
def test_a_wrong_file_is_told_before_anything_is_served(toolbox: Place, tmp_path: Path, variable: str) -> None:
    file = tmp_path / "file.toml"
    file.write_text('defualt = "deny"')
    with gateway(toolbox, last_s=None, **{variable: str(file)}) as started:
        assert started.wait(PATIENCE_S) == 2
        assert started.stdout is not None
        assert started.stdout.read() == ""
    told = (toolbox.folder / "stderr.txt").read_text()
    assert "defualt" in told
    assert "Traceback" not in told


async def test_a_registry_that_is_not_there_yet_is_told_to_who_asks(tmp_path: Path) -> None:
    """The host's list of servers stays green, and a later ingest is seen."""
    place = Place(tmp_path)
    async with Client(on_stdio(place)) as host:
        assert len((await host.list_tools()).tools) == 3
        error = error_of(await host.call_tool("find_tools", {"query": "add"}))
        assert error["code"] == "registry-not-found"
        await anyio.to_thread.run_sync(toolbox_place, tmp_path)
        assert not (await host.call_tool("find_tools", {"query": "add two whole numbers"})).is_error
        assert (await host.call_tool("box__add", {"a": 1, "b": 2})).structured_content == {"total": 3}


@pytest.mark.parametrize("with_arguments", [False, True])
async def test_each_call_is_one_line_of_the_audit(tmp_path: Path, with_arguments: bool) -> None:
    """Who, which tool, how it ended, how long it took, its arguments' names; their values if asked for, no secret."""
    place = toolbox_place(tmp_path)
    environ = {"WAYGRAPH_AUDIT_ARGUMENTS": "true"} if with_arguments else {}
    async with Client(on_stdio(place, **environ)) as host:
        await host.call_tool("find_tools", {"query": "add two whole numbers"})
        await host.call_tool("box__add", {"a": 1, "b": 2, "password": "tide-and-time"})
        await host.call_tool("use_tool", {"name": "box__fail", "params": {"note": "sk-abcdefghijklmnop"}})
        await host.call_tool("box__fail", {"sk-abcdefghijklmnop": 1, **{f"{n:03}{'x' * 90}": n for n in range(70)}})
        await host.call_tool("use_tool", {"query": "erase", "params": {}})
        await host.call_tool("box__ad", {})
    lines = place.audit
    told = [(line["caller"], line["action"], line["target"], line["outcome"], line.get("error")) for line in lines]
    assert told == [
        ("local", "call", "box/add", "ok", None),
        ("local", "call", "box/fail", "failed", "ToolError"),
        ("local", "call", "box/fail", "failed", "ToolError"),
        ("local", "call", "box/erase", "refused", "NotCallable"),
        ("local", "call", "box__ad", "refused", "UnknownName"),
    ]
    assert all(line["duration_ms"] >= 0 for line in lines)
    assert [line["parameters"] for line in lines if line["target"] != "box/fail"] == [["a", "b", "password"], [], []]
    bounded = lines[2]["parameters"]
    assert (len(bounded), max(map(len, bounded)), bounded[-1]) == (64, 64, "sk-***")
    text = json.dumps(lines)
    assert ('\\"a\\": 1' in text) == with_arguments
    assert "tide-and-time" not in text
    assert "abcdefghijklmnop" not in text


@pytest.fixture
def running(toolbox: Place, tmp_path: Path) -> Iterator[Running]:
    environ = {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"], "WAYGRAPH_DRAIN_TIMEOUT_S": "600"}
    with process(toolbox.registry, tmp_path, environ=environ) as service:
        yield service


def test_a_service_that_is_told_to_stop_ends_what_was_begun(running: Running, toolbox: Place) -> None:
    """A call that is under way is answered; streams that have no end are closed at once; its servers end."""
    accept = {"Accept": "application/json, text/event-stream"}
    begun = running.client(**accept).post("/mcp", json=HELLO)
    session = {**accept, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
    streams = [threading.Event(), threading.Event()]
    endless = threading.Thread(target=lambda: read(streams[0], running.client(**session), "GET"))
    endless.start()
    listen_params = {"_meta": ENVELOPE, "notifications": {"toolsListChanged": True}}
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen_params}
    modern = running.client(**{**BARE, "Mcp-Method": "subscriptions/listen"})
    listening = threading.Thread(target=lambda: read(streams[1], modern, "POST", listen))
    listening.start()
    waits, answers = toolbox.notes.count("waits"), list[httpx2.Response]()
    arguments = {"name": "box__wait", "arguments": {}, "_meta": {"waygraph/timeout_s": 2}}
    slow = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": arguments}
    calling = threading.Thread(target=lambda: answers.append(running.client(**session).post("/mcp", json=slow)))
    calling.start()
    until(lambda: toolbox.notes.count("waits") > waits, "the call is under way")
    assert all(stream.wait(PATIENCE_S) for stream in streams)
    children = children_of(running.process.pid)
    running.signal(signal.SIGTERM)
    assert running.wait(PATIENCE_S) == 0, "less than what is begun may take: it waits for no stream that has no end"
    for thread in (endless, listening, calling):
        thread.join(PATIENCE_S)
    assert "call-timed-out" in answers[0].text
    until(lambda: not any(is_alive(child) for child in children), "its servers have ended")
    assert "Traceback" not in running.told


def read(begun: threading.Event, client: httpx2.Client, method: str, asked: dict[str, Any] | None = None) -> None:
    """Until the service closes the stream."""
    with suppress(httpx2.RemoteProtocolError), client.stream(method, "/mcp", json=asked) as stream:
        begun.set()
        stream.read()


async def test_several_workers_answer_hosts_of_both_eras(toolbox: Place, tmp_path: Path, era: Era) -> None:
    """None keeps a session: whichever worker a request comes to, it answers."""
    environ = {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"]}
    with process(toolbox.registry, tmp_path, "--workers", "2", environ=environ) as service:
        for _ in range(4):
            async with over_http(f"{service.url}/mcp", era) as host:
                for _ in range(3):
                    result = await host.call_tool("box__add", {"a": 1, "b": 2})
                    assert result.structured_content == {"total": 3}
        assert service.client().post("/mcp", json=LIST, headers=BARE).status_code == 200


def children_of(pid: int) -> list[int]:
    """Of the process, and of its children."""
    told = subprocess.run(["/bin/ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(child): int(parent) for child, parent in (line.split() for line in told.stdout.splitlines())}
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [each for child in found for each in children_of(child)]


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
