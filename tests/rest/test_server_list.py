"""Documents by which other programs find what is here: the list of servers, and the search of the catalogue."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service import Served, agent, assert_good, assert_problem, ingest, served
from waygraph.ingest.sources.registry_source import open_registry
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, canonical_json
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.export.formats import servers

OPEN = {"url": "https://maps.example.com/mcp?key=1", "headers": {"Authorization": "${TOKEN}"}}
GATEWAY = "-waygraph"
NEAR = {"url": "http://10.0.0.7/mcp"}


@pytest.fixture
def filled(guarded: Served) -> Served:
    ingest(guarded.admin(), "s", agent("maps", "look", transport=OPEN), agent("near", transport=NEAR), agent("z"))
    ingest(guarded.admin(), "t", agent("secret", "look", visible_to=["crew"]), agent("card", kind="a2a_agent"))
    return guarded


def names(told: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [each["server"]["name"].partition("/")[2] for each in told["servers"]]


def test_a_caller_is_told_what_it_may_see(filled: Served) -> None:
    """Neither private servers nor inner addresses, nor what an address or a header holds beside the place."""
    assert names(assert_good(filled.admin().get("/v0.1/servers"))) == [GATEWAY, "maps", "near", "secret", "z"]
    stranger = filled.caller("read")
    told = assert_good(stranger.get("/v0.1/servers"))
    assert names(told) == [GATEWAY, "maps", "near", "z"]
    assert told["metadata"] == {"count": 4}
    by_name = {each["server"]["name"]: each["server"] for each in told["servers"]}
    assert by_name["1.0.0.127/maps"]["remotes"] == [{"type": "streamable-http", "url": "https://maps.example.com/mcp"}]
    assert "remotes" not in by_name["1.0.0.127/near"]
    hidden = assert_problem(stranger.get("/v0.1/servers/1.0.0.127/secret/versions/latest"), 404, UnknownName)
    absent = assert_problem(stranger.get("/v0.1/servers/1.0.0.127/sekret/versions/latest"), 404, UnknownName)
    assert hidden["facts"]["nearest"] == absent["facts"]["nearest"]


def test_parts_lead_through_the_whole_list(filled: Served) -> None:
    client, seen, cursor = filled.admin(), list[str](), ""
    for _ in range(5):
        told = assert_good(client.get("/v0.1/servers", params={"limit": 1, "cursor": cursor}))
        seen += names(told)
        cursor = told["metadata"].get("nextCursor", "")
    assert (seen, cursor) == ([GATEWAY, "maps", "near", "secret", "z"], "")
    assert names(assert_good(client.get("/v0.1/servers?search=MAP&version=latest"))) == ["maps"]
    assert names(assert_good(client.get("/v0.1/servers?version=9"))) == []
    name = quote("1.0.0.127/maps", safe="")
    assert assert_good(client.get(f"/v0.1/servers/{name}/versions/0.0.0"))["server"]["title"] == "maps"
    assert names(assert_good(client.get(f"/v0.1/servers/{name}/versions"))) == ["maps"]
    assert_problem(client.get(f"/v0.1/servers/{name}/versions/9"), 404, UnknownName)


@pytest.mark.parametrize("since", ["", "2026-11-20T00:00:00Z"])
def test_a_registry_is_a_source_of_another(filled: Served, since: str) -> None:
    """Page by page, as far as the key that it shows may see; a key of more groups brings more."""
    headers = {"Authorization": f"Bearer {filled.key('read')}"}
    for key, private in (
        (headers, []),
        ({"Authorization": f"Bearer {filled.key('read', groups=('crew',))}"}, ["secret"]),
    ):
        read = open_registry(filled.url, Settings(), since=since, headers=key).read()
        assert [entry.key for entry in read.entries] == [
            f"1.0.0.127/{name}" for name in (GATEWAY, "maps", "near", *private, "z")
        ]
        assert not read.rejected
    transport = json.loads(read.entries[1].agent.transport)
    assert transport == {"type": "http", "url": "https://maps.example.com/mcp"}


def test_the_gateway_stands_first_under_its_public_address(tmp_path: Path) -> None:
    with served(folder=tmp_path, settings=Settings(public_url="https://tools.example/a")) as service:
        ingest(service.client(), "s", agent("a"))
        first, *_ = assert_good(service.client().get("/v0.1/servers"))["servers"]
    assert first["server"]["name"] == f"example.tools/{GATEWAY}"
    assert first["server"]["remotes"] == [{"type": "streamable-http", "url": "https://tools.example/a/mcp"}]


def test_names_and_texts_fit_the_format() -> None:
    """Two ids never become one name, and a description has 1 to 100 characters."""
    agents = [Agent(id="a b", name="A", description="x" * 300), Agent(id="a_b", name="B", transport=canonical_json(3))]
    listed = list(servers([(each, each.transport) for each in agents], "http://[::1]:8080", gateway=False))
    told = {each["server"]["name"]: each["server"] for each in listed}
    assert set(told) == {f"--1/a_b_{digest('a b')[:8]}", "--1/a_b"}
    assert {len(each["description"]) for each in told.values()} == {1, 100}
