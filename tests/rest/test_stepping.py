"""Exclusions and steps through every door, beside a taxonomy of tools, a history and callers with groups."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.fake_openai import KEY, FakeOpenAI, fake_openai
from tests.gateway.hosts import Place, ingest, on_stdio, over_http, told
from tests.gateway_catalog import by_hand
from tests.service import Served, assert_good, assert_problem, notice_of, served
from waygraph import Settings
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.nouns import Filters, Of, Query, Turn
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import recipe_named

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
STEPS = ("today's exchange rates of a currency", "book a table for dinner")
TEXT = "change money and eat out, not with Bureau FX"
FAILED = "the operator's language model failed"
PAST = [{"role": "call", "tool": "trencher-tables/reserve", "outcome": "failed"}]


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answer = lambda _: json.dumps({"steps": STEPS})
        yield running


def serve_catalog(fake: FakeOpenAI, folder: Path, steps: str) -> Any:
    environ = fake.environ
    settings = Settings(embedder="none", steps=steps, openai_retries=0, openai_timeout_s=5.0)
    return served(auth=True, folder=folder, settings=settings, environ=environ)


@pytest.fixture
def service(fake: FakeOpenAI, tmp_path: Path) -> Iterator[Served]:
    """The example catalogue, of which only the tellers see Bureau FX, and a taxonomy of its tools."""
    with serve_catalog(fake, tmp_path, "openai:splitter") as running:
        fill(running)
        tools = [tool.id for tool in running.registry.tools()]
        tree = by_hand({"most": tuple(tools[3:]), "few": tuple(tools[:3])})
        running.registry.operator.set("bureau-fx", visible_to=["tellers"])
        running.registry.build_taxonomy(tree, of=Of.TOOLS, private=True, shown_to_all=True)
        yield running


def fill(running: Served) -> None:
    for manifest in read_path(str(CATALOG), Settings()):
        sync(running.registry, manifest)


def agents_of(answer: Any) -> list[str]:
    return [match["agent"]["id"] for match in answer["matches"]]


def test_steps_and_their_text_are_found_and_what_it_excludes_is_not(service: Served, tmp_path: Path) -> None:
    """Over REST, by a client and by the command: each step, then the text; an exclusion of the text holds for all."""
    teller = service.caller("route", groups=("tellers",))
    body = {"text": TEXT, "steps": STEPS, "limit": 6, "history": PAST}
    for path in ("/v1/route", "/v1/tools/search"):
        bare = assert_good(teller.post(path, json={**body, "text": "change money and eat out"}))
        assert bare["steps"][0]["matches"][0]["agent"]["id"] == "bureau-fx"
        answer = assert_good(teller.post(path, json=body))
        assert [step["query"]["text"] for step in answer["steps"]] == [*STEPS, TEXT]
        assert answer["exclusions"] == ["bureau-fx"]
        assert "bureau-fx" in notice_of(answer)
        assert all("bureau-fx" not in agents_of(each) for each in (answer, *answer["steps"]))
        assert answer["query"]["without_agent_ids"] == []
        by_filter = {**body, "text": "change money and eat out", "filters": {"without_agent_ids": ["bureau-fx"]}}
        assert agents_of(assert_good(teller.post(path, json=by_filter))) == agents_of(answer)
    history = (Turn(role="call", tool="trencher-tables/reserve", outcome="failed"),)
    query = Query(text=TEXT, steps=STEPS, limit=6, history=history)
    here = service.registry.find_tools(query)
    assert here.exclusions == ("bureau-fx",)
    with Registry.open(service.url, environ={"WAYGRAPH_API_KEY": service.key(everything=True)}) as remote:
        there = remote.find_tools(query)
        assert (there.matches, there.steps, there.query) == (here.matches, here.steps, here.query)
        without = Query(text="send an invoice", filters=Filters(without_kinds=("mcp_server",), without_tags=("maths",)))
        assert remote.route(without).matches == service.registry.route(without).matches != ()


def test_a_name_that_a_caller_may_not_see_excludes_nothing_and_is_told_nowhere(service: Served) -> None:
    """The answer is that to a name which nobody has, but for the words of the request."""
    stranger = service.caller("route")
    for path in ("/v1/route", "/v1/tools/search"):
        answers = [
            assert_good(stranger.post(path, json={"text": TEXT.replace("Bureau FX", name), "steps": STEPS}))
            for name in ("Bureau FX", "Zorb Ltd")
        ]
        parts = [
            [{k: v for k, v in each.items() if k != "elapsed_ms"} for each in answer["steps"]] for answer in answers
        ]
        assert json.dumps(parts[0]).replace("Bureau FX", "Zorb Ltd") == json.dumps(parts[1])
        assert (answers[0]["exclusions"], answers[0]["matches"]) == ([], answers[1]["matches"])


def test_the_operators_model_splits_requests_where_a_caller_asks(service: Served, fake: FakeOpenAI) -> None:
    client = service.caller("route")
    for path in ("/v1/route", "/v1/tools/search"):
        answer = assert_good(client.post(path, json={"text": "eat out and pay", "by_steps": True}))
        assert (answer["query"]["steps"], notice_of(answer, "not_split")) == ([*STEPS], "")
        assert len(answer["steps"]) == 3
    with Registry.open(service.url, environ={"WAYGRAPH_API_KEY": service.key()}) as remote:
        assert (
            remote.find_tools("eat out and pay", recipe=recipe_named("hybrid", steps_by="default")).query.steps == STEPS
        )
    assert {request["model"] for request in fake.requests} == {"splitter"}
    fake.overloads = 1
    answer = assert_good(client.post("/v1/route", json={"text": "eat out and pay", "by_steps": True}))
    assert FAILED in notice_of(answer, "not_split")
    assert FAILED in notice_of(answer)
    assert (answer["steps"], bool(answer["matches"])) == ([], True)


def test_without_an_operators_model_a_split_is_refused(fake: FakeOpenAI, tmp_path: Path) -> None:
    with serve_catalog(fake, tmp_path, "") as running:
        fill(running)
        refused = running.caller("route").post("/v1/route", json={"text": "eat out and pay", "by_steps": True})
        assert "WAYGRAPH_STEPS" in assert_problem(refused, 422, InvalidSetting)["detail"]


async def test_a_host_gives_steps_or_has_its_query_split(service: Served, fake: FakeOpenAI) -> None:
    async with over_http(f"{service.url}/mcp", key=service.key("route", groups=("tellers",))) as host:
        found = told(await host.call_tool("find_tools", {"query": TEXT, "steps": list(STEPS), "limit": 4}))
        assert [each["code"] for each in found["notices"]] == ["excluded"]
        names = [tool["name"] for tool in found["tools"]]
        assert [rows[0] for rows in found["steps"]] == names[:2]
        assert not any(name.startswith("bureau-fx") for name in names)
        assert fake.requests == []
        split = told(await host.call_tool("find_tools", {"query": "eat out and pay", "limit": 4}))
        assert split["tools"][0]["name"].startswith("bureau-fx")
        assert len(split["steps"]) == 2
        agents = told(await host.call_tool("route_agents", {"query": "eat out and pay"}))
        assert len(agents["steps"]) == 2
        fake.overloads = 1
        failed = told(await host.call_tool("find_tools", {"query": "eat out, then pay"}))
        assert FAILED in notice_of(failed, "not_split")
        bad = await host.call_tool("find_tools", {"query": "x", "steps": "y"})
        assert "/steps" in json.dumps(bad.structured_content or [each.model_dump() for each in bad.content])


async def test_a_program_that_a_host_starts_answers_alike(fake: FakeOpenAI, tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert ingest(place, str(CATALOG)) == 0
    launch = on_stdio(place, WAYGRAPH_STEPS="openai:splitter", OPENAI_BASE_URL=fake.url, OPENAI_API_KEY=KEY)
    async with Client(launch) as host:
        found = told(await host.call_tool("find_tools", {"query": TEXT}))
        assert ([each["code"] for each in found["notices"]], len(found["steps"])) == (["excluded"], 2)
        assert not any(tool["name"].startswith("bureau-fx") for tool in found["tools"])


def test_the_command_takes_steps_of_tools_too(
    service: Served, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYGRAPH_API_KEY", service.key(everything=True))
    monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    base = ["--registry", service.url, "find", "eat out and pay, not with Bureau FX", "--json"]
    for more in (["--by-steps", "openai:judge"], ["--by-steps", "default"], ["--step", STEPS[0], "--step", STEPS[1]]):
        capsys.readouterr()
        assert main([*base, *more]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["query"]["steps"] == [*STEPS]
        assert answer["exclusions"] == ["bureau-fx"]
    assert main([*base, "--step", "a", "--by-steps", "default"]) == 2
    assert main(["--registry", service.url, "find"]) == 2
