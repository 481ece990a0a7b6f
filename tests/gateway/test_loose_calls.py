"""Calls as models and servers write them: another name, JSON as text, a request that only one tool can take."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from tests.clients import scripted_server
from tests.gateway.hosts import Place, error_of, ingest, over_http, told
from tests.service import Served, served

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def tool(name: str, description: str, *required: str, **more: Any) -> dict[str, Any]:
    properties = {**dict.fromkeys(required, TEXT), "days": NUMBER}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "inputSchema": schema, **more}


TOOLS = [
    tool("get_weather", "Get the weather of a place.", "city"),
    tool("get_sea_weather", "Get the weather of a place at sea.", "port"),
    tool("set_weather", "Set the weather alarm of a person.", "person"),
    tool("getOrCreateAlarm", "Get the alarm for lightning, or create it.", "zone"),
    tool("close_station", "Shut a station down for the night.", "stationId"),
    tool("list_stations", "Name every station."),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over a server that annotates nothing and returns the arguments of each call."""
    place = Place(tmp_path_factory.mktemp("loose"))
    lists = {"tools/list": {"tools": TOOLS}, "prompts/list": {"prompts": None}, "resources/list": {"resources": None}}
    (place.folder / "script.json").write_text(json.dumps({"results": lists, "calls": {}}))
    launch = {"command": sys.executable, "args": [scripted_server.__file__, str(place.folder / "script.json")]}
    (place.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"sky": launch}}))
    assert ingest(place, str(place.folder / "mcp.json")) == 0
    with served(place.registry) as running:
        yield running


def answer_to(service: Served, name: str, arguments: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with over_http(f"{service.url}/mcp") as host:
            return await host.call_tool(name, arguments)

    return anyio.run(ask)


CITY = {"city": "Bergen"}


@pytest.mark.parametrize(
    "written",
    [
        {"params": CITY},
        {"arguments": CITY},
        {"params": json.dumps(CITY)},
        {"arguments": json.dumps(CITY)},
        {"params": {**CITY, "days": None}, "query": None},
    ],
)
def test_use_tool_takes_arguments_as_they_are_written(service: Served, written: dict[str, Any]) -> None:
    answer = answer_to(service, "use_tool", {"name": "sky__get_weather", **written})
    assert json.loads(answer.content[0].text) == CITY
    mended = [json.loads(block.text)["mended"] for block in answer.content[1:]]
    assert bool(mended) == (written not in ({"params": CITY}, {"arguments": CITY}))


def test_a_missing_id_is_told_with_the_tool_that_gives_it(service: Served) -> None:
    missing, strange = (
        error_of(answer_to(service, "use_tool", {"name": "sky__close_station", "params": params}))["message"]
        for params in ({}, {"stationId": ["x"]})
    )
    assert "sky__list_stations" in missing
    assert "sky__list_stations" not in strange


def test_both_names_of_the_arguments_at_once_are_refused(service: Served) -> None:
    answer = answer_to(service, "use_tool", {"name": "sky__get_weather", "params": CITY, "arguments": CITY})
    assert "/arguments" in error_of(answer)["message"]


def test_what_was_mended_is_said_behind_the_answer(service: Served) -> None:
    answer = answer_to(service, "sky__get_weather", {"city": 5, "days": "3"})
    assert json.loads(answer.content[0].text) == {"city": "5", "days": 3}
    changes = [
        {"path": "/city", "given": "integer", "sent": "string"},
        {"path": "/days", "given": "string", "sent": "integer"},
    ]
    assert json.loads(answer.content[1].text) == {"mended": changes}
    assert answer.meta["waygraph/mended"] == changes


def test_the_gateway_s_own_tools_are_mended_too(service: Served) -> None:
    answer = told(answer_to(service, "find_tools", {"query": "weather", "limit": "1", "steps": None}))
    assert len(answer["tools"]) == 1


@pytest.mark.parametrize(
    ("params", "name"),
    [(CITY, "get_weather"), ({"port": "Bergen"}, "get_sea_weather"), ({"port": 7}, "get_sea_weather")],
)
def test_of_tools_that_fit_a_request_the_one_that_takes_the_arguments_runs(
    service: Served, params: dict[str, Any], name: str
) -> None:
    """They annotate nothing; their names say that they read."""
    answer = answer_to(service, "use_tool", {"query": "get the weather of a place", "params": params})
    assert json.loads(answer.content[0].text).keys() == params.keys(), name


@pytest.mark.parametrize(
    ("query", "params", "code"),
    [
        ("get the weather of a place", {}, "ambiguous-tool"),
        ("get the weather of a place", {"days": 3}, "ambiguous-tool"),
        ("get the weather of a place", {"person": "Ines"}, "not-callable"),
        ("alarm for lightning", {"zone": "a"}, "not-callable"),
    ],
)
def test_what_may_change_things_or_is_not_clear_does_not_run_for_a_request(
    service: Served, query: str, params: dict[str, Any], code: str
) -> None:
    assert error_of(answer_to(service, "use_tool", {"query": query, "params": params}))["code"] == code
