"""Tools of servers that other people wrote, called over the pool: what they return, tell and ask."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def calling(name: str, folder: Path) -> AsyncIterator[Call]:
    """Calls to a real server."""
    server = real_server(name, folder)
    launch = StdioLaunch(command=server.command, args=server.args, env=server.env)
    agent = Agent(id=name, name=name)

    async def launch_of(_: Agent) -> Launch:
        return launch

    async with calling_pool(launch_of, SETTINGS) as pool:
        yield _calls(pool, agent)


def _calls(pool: Pool, agent: Agent) -> Call:
    async def call(tool: str, host: Host | None = None, **arguments: Any) -> Result:
        with anyio.fail_after(TIMEOUT_S):
            return await pool.call(agent, tool, arguments, host=host or Listening())

    return call


def text_of(result: Result) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


async def test_everything_returns_what_it_has(tmp_path: Path) -> None:
    async with calling("everything", tmp_path) as call:
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


async def test_everything_tells_how_far_it_is(tmp_path: Path) -> None:
    async with calling("everything", tmp_path) as call:
        host = Listening()
        await call("trigger-long-running-operation", host, duration=0.2, steps=4)
        assert [entry for entry in host.heard if isinstance(entry[0], float)] == [(n, 4, None) for n in range(1, 5)]


async def test_everything_asks_and_is_answered(tmp_path: Path) -> None:
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
    async with calling("everything", tmp_path) as call:
        assert "Name: Ada" in text_of(await call("trigger-elicitation-request", host))
        assert "forty-two" in text_of(await call("trigger-sampling-request", host, prompt="How many?"))
        assert [method for method, _ in host.asked] == list(host.answers)


@pytest.mark.parametrize("tool", ["trigger-elicitation-request", "trigger-sampling-request"])
async def test_everything_asks_and_nobody_can_be_asked(tmp_path: Path, tool: str) -> None:
    async with calling("everything", tmp_path) as call:
        refused = await call(tool, prompt="How many?")
        assert refused["isError"] is True
        assert "the host of this call does not take" in text_of(refused)


async def test_time_converts(tmp_path: Path) -> None:
    async with calling("time", tmp_path) as call:
        told = await call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo")
        assert "21:00" in text_of(told)
        wrong = await call("convert_time", source_timezone="Nowhere", time="12:00", target_timezone="UTC")
        assert wrong["isError"] is True


async def test_filesystem_keeps_to_its_folder(tmp_path: Path) -> None:
    """It asks for roots as it starts; what the operator allowed it stays what it may see."""
    (tmp_path / "note.txt").write_text("Ebb at six.", "utf-8")
    host = Listening({"roots/list": {"roots": [{"uri": "file:///"}]}})
    async with calling("filesystem", tmp_path) as call:
        assert "Ebb at six." in text_of(await call("read_text_file", host, path=str(tmp_path / "note.txt")))
        denied = await call("read_text_file", host, path="/etc/hostname")
        assert denied["isError"] is True
        assert "Access denied" in text_of(denied)


async def test_memory_keeps_what_it_is_told(tmp_path: Path) -> None:
    async with calling("memory", tmp_path) as call:
        ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        await call("create_entities", entities=[ada])
        assert (await call("read_graph"))["structuredContent"]["entities"] == [ada]


async def test_git_tells_an_error_of_its_own(tmp_path: Path) -> None:
    async with calling("git", tmp_path) as call:
        told = await call("git_status", repo_path=str(tmp_path))
        assert told["isError"] is True
        assert str(tmp_path) in text_of(told)
