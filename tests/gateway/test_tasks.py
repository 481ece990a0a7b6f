"""Tools that run as tasks (SEP-2663): waited for on behalf of any host, handed to those that speak tasks."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import ElicitResult

from tests.gateway.hosts import Era, Place, error_of, ingest, on_stdio, over_http, told
from tests.service import served, until
from waygraph.api.mcp import pending_calls
from waygraph.ingest.upstream.calls import raw_request
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.identity import digest

PROGRAM = Path(__file__).parent / "programs" / "baker.py"
SPEAKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}}
LONG_S = 600


@contextmanager
def listening(folder: Path) -> Iterator[str]:
    """The server over HTTP, at this address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(PROGRAM), str(folder), str(port)])
    try:
        until(lambda: _answers(port), "the server listens")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=["stdio", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    if request.param == "stdio":
        yield _ingested(place, {"command": sys.executable, "args": [str(PROGRAM), str(tmp_path)]})
    else:
        with listening(tmp_path) as url:
            yield _ingested(place, {"type": "http", "url": url})


def _ingested(place: Place, server: Mapping[str, Any]) -> Place:
    (place.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": server}}))
    assert ingest(place, str(place.folder / "mcp.json")) == 0
    return place


def opened(place: Place, **more: Any) -> Any:
    """A host over `waygraph mcp`; untyped, since its results are unions."""
    return Client(on_stdio(place), **more)


async def ask(host: Client, method: str, **params: Any) -> Mapping[str, Any]:
    """As a host that speaks tasks."""
    return await raw_request(host.session, method, params, capabilities=SPEAKS)


async def begin(host: Client, **arguments: Any) -> Mapping[str, Any]:
    return await ask(host, "tools/call", name="shop__bake", arguments=arguments)


async def fetch(host: Client, task_id: str, *, ends: bool = True) -> Mapping[str, Any]:
    """Its state once it has ended, or asks."""
    with anyio.fail_after(60):
        while (state := await ask(host, "tasks/get", taskId=task_id))["status"] == "working" and ends:
            await anyio.sleep(0.05)
    return state


async def test_any_host_gets_the_result_of_a_task(place: Place, era: Era) -> None:
    """Meanwhile it hears how far the task is, and its person is asked."""
    heard: list[str | None] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        heard.append(params.message)
        return ElicitResult(action="accept", content={"flour": "oats"})

    async def hear(amount: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async with opened(place, mode=era, elicitation_callback=person) as host:
        result = await host.call_tool("shop__bake", {"seconds": 0.3, "asks": True}, progress_callback=hear)
        assert result.content[0].text == "bread of oats"
        assert heard.count("Agent shop asks: Which flour?") == 1
        assert "Agent shop: in the oven" in heard
        with pytest.raises(MCPError, match=r"shop/bake says.*the oven broke"):
            await host.call_tool("shop__bake", {"fails": True})
    assert place.notes.count("began") == 2


async def test_a_host_that_cancels_cancels_the_task(place: Place) -> None:
    heard = anyio.Event()

    async def hear(amount: float, total: float | None, message: str | None) -> None:
        if message and "oven" in message:
            heard.set()

    async with opened(place) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(host.call_tool, "shop__bake", {"seconds": LONG_S}, progress_callback=hear))
        with anyio.fail_after(60):
            await heard.wait()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(60):
            while "cancelled" not in place.notes:
                await anyio.sleep(0.05)


async def test_a_host_that_speaks_tasks_gets_them_through(place: Place) -> None:
    """With an id of ours, by which it fetches, answers and cancels; without the extension they are refused."""
    async with opened(place) as host:
        first = await begin(host, seconds=0.2, asks=True)
        assert (first["resultType"], first["status"]) == ("task", "input_required")
        asks = await fetch(host, first["taskId"])
        [(key, question)] = asks["inputRequests"].items()
        assert question["params"]["message"] == "Agent shop asks: Which flour?"
        answers = {key: {"action": "accept", "content": {"flour": "spelt"}}}
        assert (await ask(host, "tasks/update", taskId=first["taskId"], inputResponses=answers))[
            "resultType"
        ] == "complete"
        done = await fetch(host, first["taskId"])
        assert (done["taskId"], done["status"]) == (first["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "bread of spelt"
        second = await begin(host, seconds=LONG_S)
        await ask(host, "tasks/cancel", taskId=second["taskId"])
        assert (await fetch(host, second["taskId"]))["status"] == "cancelled"
        own_id = next(file.stem for file in place.folder.glob("*-*.json"))
        for unknown in (own_id, "../../mcp", "x" * 43):
            with pytest.raises(MCPError) as refusal:
                await ask(host, "tasks/get", taskId=unknown)
            assert refusal.value.code == -32602
        with pytest.raises(MCPError) as refusal:
            await raw_request(host.session, "tasks/get", {"taskId": first["taskId"]})
        assert refusal.value.code == -32021


async def test_a_handle_outlives_the_gateway(place: Place) -> None:
    """Killed amid the task: the next one has the result, for a host that speaks tasks and for a model of another."""
    async with opened(place) as host:
        mine = await begin(host, seconds=4)
        late = await host.call_tool("shop__bake", {"seconds": 4}, meta={"waygraph/timeout_s": 1})
        name = told(late)["task"]["name"]
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            words = line.read_bytes().split(b"\0") if line.exists() else []
            if b"mcp" in words and str(place.registry).encode() in words:
                os.kill(int(line.parent.name), signal.SIGKILL)
    async with opened(place) as host:
        assert (await fetch(host, mine["taskId"]))["result"]["content"][0]["text"] == "bread of rye"
        result = await host.call_tool("use_tool", {"name": name})
        assert result.content[0].text == "bread of rye"
    assert place.notes == ["began", "began"]


async def test_a_task_that_nobody_asks_about_is_cancelled_and_forgotten(place: Place) -> None:
    """By the next gateway, where the first was killed too; one that has ended is only forgotten."""
    async with opened(place) as host:
        await fetch(host, (await begin(host))["taskId"])
        await begin(host, seconds=LONG_S)
    handles = list(Path(os.environ["XDG_DATA_HOME"]).glob(f"waygraph/tasks/{digest(str(place.registry))}/*/*.json"))
    assert len(handles) == 2
    damaged = [handles[0].with_name("cut.json"), handles[0].with_name("later.json")]
    former = handles[0].parents[2] / f"{'a' * 43}.json"
    for file, content in zip((*damaged, former), ('{"tool_id":', '{"tool_id": 3}', "{}"), strict=True):
        file.write_text(content)
    for path in (*handles, *damaged, handles[0].parent):
        os.utime(path, (0, 0))
    async with opened(place):
        with anyio.fail_after(60):
            while "cancelled" not in place.notes or any(map(Path.exists, (handles[0].parent, former))):
                await anyio.sleep(0.05)
    assert place.notes == ["began", "began", "cancelled"]


def test_a_caller_with_too_many_tasks_gives_up_the_oldest_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_calls, "MOST_TASKS", 2)
    handles, task = pending_calls.TaskHandles(tmp_path), pending_calls.TaskHandle("shop/bake", "other's", "two")
    other, _ = handles.keep(task)
    own = [handles.keep(replace(task, task_id=str(number), caller="one")) for number in range(3)]
    assert [[each.task_id for each in excess] for _, excess in own] == [[], [], ["0"]]
    assert handles.read(other.token, "two") == other
    for token, caller in ((own[0][0].token, "one"), (other.token, "one")):
        with pytest.raises(UnknownName):
            handles.read(token, caller)
    handles.note_end(own[0][0])
    assert not list(tmp_path.glob(f"*/{own[0][0].token}.json"))


async def test_a_task_is_its_callers_alone(place: Place, tmp_path: Path) -> None:
    """Over HTTP another key learns nothing of it, not even that there is one."""
    with served(place.registry, auth=True, folder=tmp_path / "keys") as service:
        mine, other = (over_http(f"{service.url}/mcp", key=service.key("route", "use")) for _ in range(2))
        async with mine as host, other as stranger:
            task_id = (await begin(host))["taskId"]
            assert (await fetch(host, task_id))["status"] == "completed"
            with pytest.raises(MCPError, match="is not known"):
                await ask(stranger, "tasks/get", taskId=task_id)
            refusal = await stranger.call_tool("use_tool", {"name": f"waygraph://tasks/{task_id}"})
    assert error_of(refusal)["code"] == "unknown-name"


async def test_a_tool_of_an_older_server_that_has_to_run_as_a_task_runs(tmp_path: Path) -> None:
    """The revision of 2025-11-25: its result is asked for apart."""
    program = PROGRAM.with_name("older_baker.py")
    place = _ingested(Place(tmp_path), {"command": sys.executable, "args": [str(program), str(tmp_path / "notes.txt")]})
    async with opened(place) as host:
        result = await host.call_tool("shop__bake", {})
        mine = await begin(host)
        assert (await fetch(host, mine["taskId"]))["result"] == {"content": [{"type": "text", "text": "rolls"}]}
    assert result.content[0].text == "rolls"
    assert place.notes == ["tools/call", "tools/call", "tasks/get", "tasks/get", "tasks/result"] * 2
