"""Servers that other people wrote, and two of our own on either version of the SDK: all that they offer arrives."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.live_http import Form, http_launch
from tests.live_servers import REAL_SERVERS, real_server
from tests.upstream.calling import Listening
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.pool import Pool, calling_pool
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.upstream.connection import Host, Result, ServerListing
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import Settings

SETTINGS = Settings(upstream_connect_timeout_s=120.0, upstream_list_timeout_s=120.0)
"""Nothing here is about being late."""

NATURAL = Path(__file__).parents[2] / "examples" / "natural_requests"
HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"


@dataclass(frozen=True)
class Offers:
    """What the pinned version of a server offers."""

    name: str
    protocol: str
    tools: frozenset[str]
    prompts: int = 0
    resources: int = 0
    resource_templates: int = 0
    notifies: bool = False


OFFERS = {
    "time": Offers("mcp-time", MODERN, frozenset({"get_current_time", "convert_time"})),
    "git": Offers(
        "mcp-git",
        MODERN,
        frozenset(
            "git_status git_diff_unstaged git_diff_staged git_diff git_commit git_add git_reset git_log "
            "git_create_branch git_checkout git_show git_branch".split()
        ),
    ),
    "fetch": Offers("mcp-fetch", MODERN, frozenset({"fetch"}), prompts=1),
    "everything": Offers(
        "mcp-servers/everything",
        HANDSHAKE,
        frozenset(
            "echo get-annotated-message get-env get-resource-links get-resource-reference get-structured-content "
            "get-sum get-tiny-image gzip-file-as-resource toggle-simulated-logging toggle-subscriber-updates "
            "trigger-long-running-operation simulate-research-query "
            # only for who takes what they ask:
            "trigger-elicitation-request trigger-sampling-request trigger-url-elicitation".split()
        ),
        prompts=4,
        resources=7,
        resource_templates=2,
        notifies=True,
    ),
    "filesystem": Offers(
        "secure-filesystem-server",
        HANDSHAKE,
        frozenset(
            "read_file read_text_file read_media_file read_multiple_files write_file edit_file create_directory "
            "list_directory list_directory_with_sizes directory_tree move_file search_files get_file_info "
            "list_allowed_directories".split()
        ),
        notifies=True,
    ),
    "memory": Offers(
        "memory-server",
        HANDSHAKE,
        frozenset(
            "create_entities create_relations add_observations delete_entities delete_observations delete_relations "
            "read_graph search_nodes open_nodes".split()
        ),
        resources=1,
        notifies=True,
    ),
    "sdk_1": Offers("sdk-1", HANDSHAKE, frozenset({"weather", "shout"}), prompts=1, resources=1, notifies=True),
    "sdk_2": Offers(
        "sdk-2",
        MODERN,
        frozenset({"weather", *(f"drawer_{number:03}" for number in range(1, 250))}),
        prompts=1,
        notifies=True,
    ),
}


OVER_HTTP = [("sdk_1", "http"), ("sdk_1", "sse"), ("sdk_2", "http")]


def stdio(name: str, folder: Path, *args: str) -> StdioLaunch:
    server = real_server(name, folder, *args)
    return StdioLaunch(command=server.command, args=server.args, env=server.env)


def listing_of(launch: Launch) -> ServerListing:
    async def listing() -> ServerListing:
        async with connect(launch, SETTINGS) as connection:
            return await connection.listing()

    return anyio.run(listing)


def compare(listing: ServerListing, offers: Offers) -> None:
    assert listing.name == offers.name
    assert listing.protocol == offers.protocol
    assert {tool["name"] for tool in listing.tools} == offers.tools
    assert len(listing.tools) == len(offers.tools)
    assert (listing.prompts, listing.resources, listing.resource_templates) == (
        offers.prompts,
        offers.resources,
        offers.resource_templates,
    )
    assert listing.notifies == offers.notifies


@pytest.mark.parametrize("name", OFFERS)
def test_all_that_a_program_offers(name: str, tmp_path: Path) -> None:
    """Over stdio, in the era that the server speaks: every tool of every page, and how much else there is."""
    compare(listing_of(stdio(name, tmp_path)), OFFERS[name])


@pytest.mark.parametrize(("name", "form"), [("everything", "http"), ("everything", "sse"), *OVER_HTTP])
def test_all_that_an_address_offers(name: str, form: Form, tmp_path: Path) -> None:
    with http_launch(name, form, tmp_path) as launch:
        compare(listing_of(launch), OFFERS[name])


def test_the_natural_requests_know_the_tools_that_servers_offer() -> None:
    """The snapshot in examples/ is of the pinned versions."""
    agents = map(json.loads, (NATURAL / "agents.jsonl").read_text("utf-8").splitlines())
    assert {agent["id"]: {tool["name"] for tool in agent["tools"]} for agent in agents} == {
        name: OFFERS[name].tools for name in REAL_SERVERS
    }


def test_an_address_of_the_older_form_is_found_out(tmp_path: Path) -> None:
    """One who names the address of a server that only speaks the older SSE need not know that."""
    with http_launch("sdk_1", "sse", tmp_path) as launch:
        compare(listing_of(HttpLaunch(url=launch.url)), OFFERS["sdk_1"])


def tool_of(listing: ServerListing, name: str) -> Mapping[str, Any]:
    return next(tool for tool in listing.tools if tool["name"] == name)


@pytest.mark.parametrize("name", ["sdk_1", "sdk_2"])
def test_a_tool_arrives_whole(name: str, tmp_path: Path) -> None:
    """Schemas, annotations and title are those of the wire, and the server's own words come with them."""
    listing = listing_of(stdio(name, tmp_path))
    weather = tool_of(listing, "weather")
    assert weather["description"] == "The weather of a city today."
    assert weather["inputSchema"]["required"] == ["city"]
    assert weather["outputSchema"]["properties"] == {"celsius": {"type": "number"}}
    assert weather["annotations"] == {"title": "Weather", "readOnlyHint": True, "openWorldHint": True}
    assert listing.instructions == "Ask for the weather first."
    assert listing.version == {"sdk_1": "1.2.3", "sdk_2": "2.3.4"}[name]
    assert listing.lasts_s == {"sdk_1": None, "sdk_2": 60.0}[name]


@pytest.mark.parametrize(("name", "form"), [("sdk_1", None), ("sdk_2", None), *OVER_HTTP])
def test_a_change_is_heard_of(name: str, form: Form | None, tmp_path: Path) -> None:
    """A server that tells of a new tool, in the way of its era, is listed anew with it."""

    async def before_and_after(launch: Launch) -> tuple[ServerListing, ServerListing]:
        async with connect(launch, SETTINGS) as connection:
            before = await connection.listing()
            with anyio.fail_after(60):
                await connection.await_change()
            return before, await connection.listing()

    if form:
        with http_launch(name, form, tmp_path) as launch:
            before, after = anyio.run(before_and_after, launch)
    else:
        before, after = anyio.run(before_and_after, stdio(name, tmp_path))
    new = {tool["name"] for tool in after.tools} - {tool["name"] for tool in before.tools}
    assert new == {"late"}


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
    async def call(name: str, host: Host | None = None, **arguments: Any) -> Result:
        tool, host = Tool(id="", agent_id=agent.id, name=name), host or Listening()
        with anyio.fail_after(TIMEOUT_S):
            return await pool.call(
                ToolCall(agent=agent, tool=tool, arguments=arguments, deadline_s=TIMEOUT_S, host=host)
            )

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
