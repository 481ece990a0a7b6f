"""The operator's reranker: over REST, by the client and in the gateway, with a model behind a real socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import FakeOpenAI, fake_openai, in_order
from tests.gateway.hosts import over_http, told
from tests.service import Served, assert_good, assert_problem, notice_of, served
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import recipe_named

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXT = "book a table for dinner and pay the bill"
FAILED = "the operator's reranker gave no order"


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answer = in_order(3, 1)
        yield running


def serve_catalog(fake: FakeOpenAI, rerank: str) -> Any:
    environ = fake.environ
    settings = Settings(embedder="none", rerank=rerank, openai_retries=0, openai_timeout_s=5.0)
    return served(settings=settings, environ=environ)


@pytest.fixture
def service(fake: FakeOpenAI) -> Iterator[Served]:
    with serve_catalog(fake, "openai:judge") as running:
        fill(running)
        yield running


def fill(running: Served) -> None:
    for manifest in read_path(str(CATALOG), Settings()):
        sync(running.registry, manifest)


PLACES = {"/v1/route": "agent", "/v1/tools/search": "tool"}


def ids(answer: Any, noun: str) -> list[str]:
    return [match[noun]["id"] for match in answer["matches"]]


@pytest.mark.parametrize(("path", "noun"), PLACES.items())
def test_a_caller_says_whether_and_not_by_which_model(service: Served, fake: FakeOpenAI, path: str, noun: str) -> None:
    client, asked = service.client(), {"text": TEXT, "limit": 3}
    fused = ids(assert_good(client.post(path, json=asked)), noun)
    assert fake.requests == []
    answer = assert_good(client.post(path, json={**asked, "rerank": True}))
    assert ids(answer, noun) == [fused[at] for at in (2, 0, 1)]
    assert (answer["recipe"], "judge" in json.dumps(answer)) == ("lexical + default", False)
    for bad in ({"rerank": "openai:dear"}, {"recipe": "hybrid + default"}, {"recipe": "openai:dear"}):
        assert client.post(path, json={**asked, **bad}).status_code == 422
    assert [request["model"] for request in fake.requests] == ["judge"]


def test_a_failure_costs_the_order_and_names_nothing_of_the_operators(service: Served, fake: FakeOpenAI) -> None:
    client, asked = service.client(), {"text": TEXT}
    fused = assert_good(client.post("/v1/route", json=asked))
    fake.overloads = 1
    answer = assert_good(client.post("/v1/route", json={**asked, "rerank": True}))
    assert ids(answer, "agent") == ids(fused, "agent")
    assert FAILED in notice_of(answer, "not_reranked")
    assert "127.0.0.1" not in json.dumps(answer)
    assert "still answers 429" in service.log


@pytest.mark.parametrize("spec", ["judge", "nowhere:judge", "default"])
def test_a_setting_that_names_no_reranker_costs_the_order_alone(fake: FakeOpenAI, spec: str) -> None:
    with serve_catalog(fake, spec) as running:
        fill(running)
        answer = assert_good(running.client().post("/v1/route", json={"text": TEXT, "rerank": True}))
        assert FAILED in notice_of(answer, "not_reranked")
        assert answer["matches"]


def test_where_no_reranker_is_set_asking_for_one_is_refused(fake: FakeOpenAI) -> None:
    with serve_catalog(fake, "") as running:
        fill(running)
        refused = running.client().post("/v1/route", json={"text": TEXT, "rerank": True})
        assert "WAYGRAPH_RERANK" in assert_problem(refused, 422, InvalidSetting)["detail"]


def test_a_client_asks_for_the_services_reranker(service: Served, fake: FakeOpenAI) -> None:
    """By the name `default`, which means the same for a registry here; another one it does not send."""
    reranked = recipe_named("hybrid", rerank="default")
    with Registry.open(service.url, environ={}) as remote:
        for ask in ("route", "find_tools"):
            there, here = (getattr(each, ask)(TEXT, limit=3, recipe=reranked) for each in (remote, service.registry))
            assert there.matches == here.matches
            assert there.matches != getattr(remote, ask)(TEXT, limit=3).matches
        with pytest.raises(InvalidQuery):
            remote.route(TEXT, recipe=recipe_named("hybrid", rerank="openai:dear"))
    assert {request["model"] for request in fake.requests} == {"judge"}


async def test_a_gateway_ranks_by_it_and_after_a_failure_offers_another(service: Served, fake: FakeOpenAI) -> None:
    """Also if the model puts the tool that failed first; of a failure of its own the model is told."""
    fused = [match.tool.call_name for match in service.registry.find_tools(TEXT, limit=20).matches]
    async with over_http(f"{service.url}/mcp") as host:

        async def names(**more: Any) -> list[str]:
            found = told(await host.call_tool("find_tools", {"query": TEXT, "limit": 3, **more}))
            return [tool["name"] for tool in found["tools"]]

        assert await names() == [fused[at] for at in (2, 0, 1)]
        agents = told(await host.call_tool("route_agents", {"query": TEXT, "limit": 3}))["agents"]
        assert agents[0]["id"] == service.registry.route(TEXT).matches[2].agent.id
        fake.answer = lambda _: json.dumps([fused[0]])
        history = [{"tool": fused[0], "outcome": "failed"}]
        assert (await names())[0] == fused[0]
        assert fused[0] not in await names(history=history)
        asked = json.loads(fake.requests[-1]["messages"][1]["content"])
        failed_id = service.registry.tool(fused[0]).id
        assert asked["history"] == [{"call": failed_id, "outcome": "failed"}]
        fake.overloads = 1
        found = told(await host.call_tool("find_tools", {"query": TEXT}))
        assert FAILED in notice_of(found, "not_reranked")
