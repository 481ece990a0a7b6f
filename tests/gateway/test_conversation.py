"""A host's conversation with the gateway: a repeat, a failure, another subject, and what nobody serves.

The host is the official SDK's client over standard input; the servers run and keep state. A taxonomy of tools is
current, calls of others were counted, and the caller is in a group that alone sees some servers.
"""

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from benchmarks.loop.servers import SERVERS
from tests.gateway.hosts import over_http, told
from tests.gateway_catalog import by_hand
from tests.live_servers import real_server
from tests.service import PROGRAM, process
from waygraph.api.cli.app import main
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import DEFAULT_EMBEDDER
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage.local_registry import LocalRegistry

GROUP, GROUP_ONLY = "travellers", ("weather", "couriers")
COURIER = "have a courier collect a parcel at Hafenweg 2 on 2 March"
BROKEN, RIVAL = "couriers__book_pickup", "couriers__arrange_collection"
AT = "2026-11-01T00:00:00+00:00"
CALLS_OF_OTHERS = (
    *[("weather/get_current", "weather/get_forecast")] * 20,
    *[("calendar/list_events", "calendar/create_event", "mail/send_mail")] * 20,
)


@dataclass(frozen=True)
class Place:
    """`state`: where our own servers keep what they did."""

    folder: Path

    @property
    def registry(self) -> str:
        return str(self.folder / "r.grafeo")

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def rows(self, server: str, kind: str) -> list[dict[str, Any]]:
        """Without their ids."""
        rows = json.loads((self.state / f"{server}.json").read_text())[kind]
        return [{name: value for name, value in row.items() if name != "id"} for row in rows]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Eight servers of our own, one that others wrote; two are a group's alone."""
    place = Place(tmp_path)
    place.state.mkdir()
    clock = real_server("time", place.state)
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": ["-m", "benchmarks.loop.servers", name, str(place.state)]}
        for name in SERVERS
    }
    servers["time"] = {"command": clock.command, "args": list(clock.args)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert (
        main(["--registry", place.registry, "--embedder", DEFAULT_EMBEDDER, "ingest", str(tmp_path / "mcp.json")]) == 0
    )
    for name in GROUP_ONLY:
        assert main(["--registry", place.registry, "set", name, "--visible-to", GROUP]) == 0
    with LocalRegistry.open(place.registry) as registry:
        tools = [tool.id for tool in registry.tools()]
        groups = {"nature": [each for each in tools if each.startswith("weather/")]}
        groups["office"] = [each for each in tools if each not in groups["nature"]]
        tree = by_hand({name: tuple(ids) for name, ids in groups.items()})
        registry.build_taxonomy(tree, of=Of.TOOLS, private=True, shown_to_all=True)
        counts = count_transitions(CALLS_OF_OTHERS, AT)
        registry.change(lambda session: learn_transitions(session, counts))
    return place


@asynccontextmanager
async def open_host(registry: str, key: str = "", **more: str) -> AsyncIterator[Client]:
    """`waygraph mcp` as a host starts it; of a service's registry it passes everything on. `more`: its environment."""
    environ = {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"], **more} | ({"WAYGRAPH_API_KEY": key} if key else {})
    launch = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "--registry", registry, "mcp"], env=environ)
    async with Client(launch, mode="legacy") as host:
        yield host


async def find(host: Client, query: str) -> dict[str, Any]:
    return told(await host.call_tool("find_tools", {"query": query, "known": {}}))


def names_of(answer: Mapping[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]


async def use(host: Client, name: str, **arguments: Any) -> bool:
    """Whether it went well."""
    return not (await host.call_tool("use_tool", {"name": name, "params": arguments})).is_error


async def converse(host: Client, place: Place) -> None:
    assert "within" in (await host.list_tools()).tools[0].input_schema["properties"]
    await repeat(host, place)
    await fail(host, place)
    await change_subject(host, place)
    await ask_for_what_nobody_serves(host)
    await browse_to_a_tool(host, place)
    await do_in_steps(host, place)


async def do_in_steps(host: Client, place: Place) -> None:
    """One question for a task of three steps: each step's best tool does it, and none is listed twice."""
    steps = [
        "forecast the weather in Oslo for the next days",
        "add an appointment for the picnic",
        "send the guests an e-mail",
    ]
    answer = told(await host.call_tool("find_tools", {"query": "plan a picnic", "steps": steps, "known": {}}))
    assert len(set(names_of(answer))) == len(answer["tools"])
    best = [step[0] for step in answer["steps"]]
    assert best == ["weather__get_forecast", "calendar__create_event", "mail__send_mail"]
    assert await use(host, best[0], city="Oslo")
    assert await use(host, best[1], title="Picnic", date="2027-06-01")
    assert await use(host, best[2], to="guests@example.org", subject="Picnic", body="Oslo")
    assert place.rows("calendar", "events")[-1]["title"] == place.rows("mail", "mails")[-1]["subject"] == "Picnic"


async def repeat(host: Client, place: Place) -> None:
    """One tool, three times, each time found anew; then it is offered for the next city."""
    for city in ("Oslo", "Bergen", "Berlin"):
        names = names_of(await find(host, f"current weather in {city}"))
        assert names[0] == "weather__get_current"
        assert await use(host, "weather__get_current", city=city)
    names = names_of(await find(host, "current weather in Rome"))
    assert names[0] == "weather__get_current"
    assert place.rows("weather", "current") == [{"city": "Oslo"}, {"city": "Bergen"}, {"city": "Berlin"}]


async def fail(host: Client, place: Place) -> None:
    """One that cannot be reached: then its rival comes first, or it is marked."""
    assert {BROKEN, RIVAL} <= set(names_of(await find(host, COURIER)))
    assert not await use(host, BROKEN, address="Hafenweg 2", date="2027-03-02")
    answer = await find(host, COURIER)
    names, failures = names_of(answer), {tool["name"]: tool.get("failed", "") for tool in answer["tools"]}
    assert RIVAL in names
    assert "ago" in failures.pop(BROKEN)
    assert not any(failures.values()), "only what failed is marked"
    assert await use(host, RIVAL, address="Hafenweg 2", date="2027-03-02")
    assert place.rows("couriers", "collections") == [{"address": "Hafenweg 2", "date": "2027-03-02"}]


async def change_subject(host: Client, place: Place) -> None:
    answer = await find(host, "put the dentist into my calendar")
    assert names_of(answer)[0] == "calendar__create_event"
    assert await use(host, "calendar__create_event", title="Dentist", date="2027-03-03")
    assert [row["title"] for row in place.rows("calendar", "events")] == ["Dentist"]
    names = names_of(await find(host, "what time is it in Tokyo?"))
    assert names[0].startswith("time__")
    assert await use(host, "time__get_current_time", timezone="Asia/Tokyo")


async def ask_for_what_nobody_serves(host: Client) -> None:
    sure = (await find(host, "current weather in Oslo"))["confidence"]
    answer = await find(host, "why do the leaves of my basil turn yellow")
    assert answer["confidence"] < sure
    assert "unlikely" in [each["code"] for each in answer["notices"]]


async def browse_to_a_tool(host: Client, place: Place) -> None:
    """From an empty query, by what answers show, in parts, to the schema of a tool; then it is called."""

    async def ask(**arguments: Any) -> dict[str, Any]:
        return told(await host.call_tool("find_tools", {"query": "", "limit": 5, **arguments}))

    top = await ask()
    assert top["categories"].keys() == {"nature", "office"}
    names, offset = list[str](), 0
    while "mail__send_mail" not in names:
        part = await ask(within="office", offset=offset)
        names += [tool["name"] for tool in part["tools"]]
        offset = part.get("next_offset", 0)
        assert offset or "mail__send_mail" in names
    assert len(names) == len(set(names)) > 5
    shown = await ask(within="office", detail="schema", limit=50)
    schema = next(tool["inputSchema"] for tool in shown["tools"] if tool["name"] == "mail__send_mail")
    mail = {name: f"{name}@example.org" for name in schema["required"]}
    assert await use(host, "mail__send_mail", **mail)
    assert mail.items() <= place.rows("mail", "mails")[-1].items()
    inside = await ask(query="send a message", within="nature")
    assert {tool["name"].partition("__")[0] for tool in inside["tools"]} == {"weather"}


async def test_a_conversation_over_standard_input(place: Place) -> None:
    async with open_host(place.registry) as host:
        await converse(host, place)


async def test_what_one_session_calls_together_the_next_one_finds_together(place: Place) -> None:
    """Twelve calls, two by two; the answer says how often."""
    async with open_host(place.registry, WAYGRAPH_LEARN="transitions") as host:
        assert "mail__send_mail" not in names_of(await find(host, "current weather in Rome"))
        for city in ("Oslo", "Bergen", "Berlin", "Turin", "Wien", "Bern"):
            assert await use(host, "weather__get_current", city=city)
            assert await use(host, "mail__send_mail", to="ann@example.org", subject=city, body="rain")
    async with open_host(place.registry) as host:
        answer = await find(host, "current weather in Rome")
    assert names_of(answer)[0] == "weather__get_current"
    assert "mail__send_mail" in names_of(answer)
    [pair] = [each["text"] for each in answer["notices"] if "mail/send_mail" in each["text"]]
    assert re.search(r"weather/get_current: in 11 of \d+ calls", pair)


async def test_a_conversation_of_a_caller_with_a_group(place: Place, tmp_path: Path) -> None:
    """Through a shared service; a caller without the group is told of none of it."""
    keys = KeyFile(tmp_path / "keys.json")
    member = keys.create("member", ("route", "use", "read"), (GROUP,))[1]
    stranger = keys.create("stranger", ("route", "use", "read"))[1]
    with process(place.registry, tmp_path, embedder=DEFAULT_EMBEDDER, keys=keys) as service:
        url = service.url
        async with open_host(url, member) as host, open_host(url, stranger) as other:
            await converse(host, place)
            names = names_of(await find(other, "current weather in Oslo")) + names_of(await find(other, COURIER))
            assert names
            assert not any(name.startswith(GROUP_ONLY) for name in names)
            assert not await use(other, "weather__get_current", city="Oslo")
            assert told(await other.call_tool("find_tools", {"query": ""}))["categories"].keys() == {"office"}
            async with over_http(f"{url}/mcp", "legacy", key=member) as third:
                await browse_to_a_tool(third, place)
