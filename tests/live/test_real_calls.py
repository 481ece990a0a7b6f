"""Tools of servers that other people wrote, called over the pool: what they return, tell and ask."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.live_servers import real_server
from tests.upstream.calling import Listening
from waygraph.ingest.execution.pool import Pool, calling_pool
from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.ingest.upstream.connection import Host, Result
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.settings import Settings

SETTINGS = Settings(upstream_connect_timeout_s=120.0)
TIMEOUT_S = 60.0

Call = Callable[..., Awaitable[Result]]


def calling(name: str, folder: Path, act: Callable[[Call], Awaitable[object]]) -> None:
    """Runs `act` with calls to a real server."""
    server = real_server(name, folder)
    launch = StdioLaunch(command=server.command, args=server.args, env=server.env)
    agent = Agent(id=name, name=name)

    async def run() -> None:
        async def launch_of(_: Agent) -> Launch:
            return launch

        async with calling_pool(launch_of, SETTINGS) as pool:
            await act(_calls(pool, agent))

    anyio.run(run)


def _calls(pool: Pool, agent: Agent) -> Call:
    async def call(tool: str, host: Host | None = None, **arguments: Any) -> Result:
        with anyio.fail_after(TIMEOUT_S):
            return await pool.call(agent, tool, arguments, host=host or Listening())

    return call


def text_of(result: Result) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


def test_everything_returns_what_it_has(tmp_path: Path) -> None:
    async def act(call: Call) -> None:
        kinds = [part["type"] for part in (await call("get-tiny-image"))["content"]]
        assert kinds.count("image") == 1
        links = (await call("get-resource-links", count=2))["content"]
        assert [part["uri"] for part in links if part["type"] == "resource_link"] == [
            "demo://resource/dynamic/blob/1",
            "demo://resource/dynamic/text/2",
        ]
        weather = await call("get-structured-content", location="New York")
        assert weather["structuredContent"] == json.loads(text_of(weather))
        unknown = await call("no-such-tool")
        assert unknown["isError"] is True

    calling("everything", tmp_path, act)


def test_everything_tells_how_far_it_is(tmp_path: Path) -> None:
    async def act(call: Call) -> None:
        host = Listening()
        await call("trigger-long-running-operation", host, duration=0.2, steps=4)
        assert [entry for entry in host.heard if isinstance(entry[0], float)] == [(n, 4, None) for n in range(1, 5)]

    calling("everything", tmp_path, act)


def test_everything_asks_and_is_answered(tmp_path: Path) -> None:
    host = Listening(
        {
            "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
            "sampling/createMessage": {
                "role": "assistant",
                "content": {"type": "text", "text": "forty-two"},
                "model": "m",
            },
        }
    )

    async def act(call: Call) -> None:
        assert "Name: Ada" in text_of(await call("trigger-elicitation-request", host))
        assert "forty-two" in text_of(await call("trigger-sampling-request", host, prompt="How many?"))
        assert [method for method, _ in host.asked] == list(host.answers)

    calling("everything", tmp_path, act)


@pytest.mark.parametrize("tool", ["trigger-elicitation-request", "trigger-sampling-request"])
def test_everything_asks_and_nobody_can_be_asked(tmp_path: Path, tool: str) -> None:
    async def act(call: Call) -> None:
        refused = await call(tool, prompt="How many?")
        assert refused["isError"] is True
        assert "the host of this call does not take" in text_of(refused)

    calling("everything", tmp_path, act)


def test_time_converts(tmp_path: Path) -> None:
    async def act(call: Call) -> None:
        told = await call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
        assert "21:00" in text_of(told)
        wrong = await call("convert_time", source_timezone="Nowhere", time="12:00", target_timezone="UTC")
        assert wrong["isError"] is True

    calling("time", tmp_path, act)


def test_filesystem_keeps_to_its_folder(tmp_path: Path) -> None:
    """It asks for roots as it starts; what the operator allowed it stays what it may see."""
    (tmp_path / "note.txt").write_text("Ebb at six.", "utf-8")
    host = Listening({"roots/list": {"roots": [{"uri": "file:///"}]}})

    async def act(call: Call) -> None:
        assert "Ebb at six." in text_of(await call("read_text_file", host, path=str(tmp_path / "note.txt")))
        denied = await call("read_text_file", host, path="/etc/hostname")
        assert denied["isError"] is True
        assert "Access denied" in text_of(denied)

    calling("filesystem", tmp_path, act)


def test_memory_keeps_what_it_is_told(tmp_path: Path) -> None:
    async def act(call: Call) -> None:
        ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        await call("create_entities", entities=[ada])
        assert (await call("read_graph"))["structuredContent"]["entities"] == [ada]

    calling("memory", tmp_path, act)


def test_git_tells_an_error_of_its_own(tmp_path: Path) -> None:
    async def act(call: Call) -> None:
        told = await call("git_status", repo_path=str(tmp_path))
        assert told["isError"] is True
        assert str(tmp_path) in text_of(told)

    calling("git", tmp_path, act)
