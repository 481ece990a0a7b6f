"""The operator's walk of the taxonomy: over REST, by the client and in the gateway."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fake_openai import FakeOpenAI, fake_openai
from tests.gateway.hosts import over_http, told
from tests.service import Served, assert_good, notice_of, served
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.nouns import Of
from waygraph.registry.registry import Registry
from waygraph.registry.routing.answering import OPERATORS_FAILED
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXT = "book a table for dinner and pay the bill"


def one_leaf(services: Any, *_: object) -> Taxonomy:
    """A tree of one category, which holds everything."""
    holds = {each.id: By.MODEL for each in services if isinstance(each, Service)}
    return Taxonomy(
        name="t", of=Of.AGENTS, built_by="openai:m", categories={"r": Category(id="r", name="", holds=holds)}
    )


def words_of_the_request(request: Mapping[str, Any]) -> str:
    """Selects what the request names in its description, at most three."""
    told = json.loads(request["messages"][1]["content"])
    fits = [row["number"] for row in told["choices"] if "table" in row.get("description", "")]
    return json.dumps({"numbers": fits[:3]})


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answer = words_of_the_request
        yield running


@pytest.fixture
def service(fake: FakeOpenAI) -> Iterator[Served]:
    environ = fake.environ
    settings = Settings(embedder="none", walk="openai:guide", openai_retries=0, openai_timeout_s=5.0)
    with served(settings=settings, environ=environ) as running:
        for manifest in read_path(str(CATALOG), Settings()):
            sync(running.registry, manifest)
        running.registry.build_taxonomy(one_leaf)
        yield running


def test_a_service_walks_by_the_operators_model(service: Served, fake: FakeOpenAI) -> None:
    """By the recipe's name; the model is named to nobody; a failure costs the walk alone."""
    client = service.client()
    answer = assert_good(client.post("/v1/route", json={"text": TEXT, "recipe": "taxonomy", "limit": 20}))
    selected = {*answer["walked"]["selected"]}
    assert {match["agent"]["id"] for match in answer["matches"]} == selected
    assert (answer["walked"]["calls"], answer["walked"]["picks"][0]["selected"]) == (1, len(selected))
    tools = assert_good(client.post("/v1/tools/search", json={"text": TEXT, "recipe": "taxonomy"}))
    assert {match["agent"]["id"] for match in tools["matches"]} <= selected
    assert "guide" not in json.dumps([answer["walked"], tools["walked"]])
    fake.overloads = 1
    failed = assert_good(client.post("/v1/route", json={"text": TEXT, "recipe": "taxonomy"}))
    assert OPERATORS_FAILED in notice_of(failed)
    assert failed["matches"] == assert_good(client.post("/v1/route", json={"text": TEXT}))["matches"]
    assert "still answers 429" in service.log


def test_what_the_request_excludes_is_no_choice_of_a_walk(service: Served) -> None:
    client, text = service.client(), "book a table for dinner, not with Trencher Tables"
    for path in ("/v1/route", "/v1/tools/search"):
        answer = assert_good(client.post(path, json={"text": text, "recipe": "taxonomy", "limit": 20}))
        assert answer["walked"]["selected"]
        assert "trencher-tables" not in answer["walked"]["selected"]
        assert answer["exclusions"] == ["trencher-tables"]
        assert "trencher-tables" not in {match["agent"]["id"] for match in answer["matches"]}


def test_a_client_asks_for_the_services_walk(service: Served) -> None:
    with Registry.open(service.url, environ={}) as remote:
        found = remote.route(TEXT, recipe="taxonomy")
        assert found.walked is not None
        assert found.matches == service.registry.route(TEXT, recipe="taxonomy").matches
        with pytest.raises(InvalidQuery):
            remote.route(TEXT, recipe=recipe_named("taxonomy", walk="openai:dear"))


def test_a_gateway_walks_for_every_search(service: Served, fake: FakeOpenAI) -> None:
    async def search() -> None:
        async with over_http(f"{service.url}/mcp") as host:
            found = told(await host.call_tool("find_tools", {"query": TEXT}))
            assert all("table" in str(tool) or "trencher" in str(tool) for tool in found["tools"])
            assert found["tools"]

    anyio.run(search)
    assert [request["model"] for request in fake.requests] == ["guide"]
