"""A walk by the operator's model at every door: its answers, and what is said where none was made."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.fake_openai import FakeOpenAI
from tests.gateway.hosts import Place, error_of, on_stdio, over_http, told, toolbox_place
from tests.gateway_catalog import GROUP, GROUPS, PUBLIC, SECRET, agent, by_hand, fill, put, tool
from tests.service import PROGRAM, Served, assert_good, assert_problem, notice_of, process, served
from waygraph import Settings
from waygraph.api.mcp import Surface
from waygraph.api.mcp.meta_tools import UNUSABLE
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.access.policy import CallPolicy, Rule
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting
from waygraph.registry.model.nouns import Of
from waygraph.registry.registry import Registry
from waygraph.registry.routing.answering import NO_TAXONOMY, NOTHING_FITS, OPERATORS_FAILED
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy

TEXT = "create an issue"
STEPS = ("create an issue", "search tickets by words")
MODEL = "openai:pricey-guide"
MOST_CALLS = 6
"""Of one walk, or of the two of two steps."""


def rows_of(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(request["messages"][1]["content"])["choices"]
    return rows


def every(request: Mapping[str, Any]) -> str:
    return json.dumps({"numbers": [row["number"] for row in rows_of(request)]})


def only(*wanted: str) -> Callable[[Mapping[str, Any]], str]:
    """Opens every category and selects what has one of these names."""

    def answer(request: Mapping[str, Any]) -> str:
        rows = rows_of(request)
        fits = [row["number"] for row in rows if row["name"] in (*wanted, *GROUPS)]
        return json.dumps({"numbers": fits})

    return answer


def deep(services: Sequence[Any], *_: object) -> Taxonomy:
    """A category in a category, so many that a walk to the last needs more calls than it may make."""
    ids = [f"c{at}" for at in range(MOST_CALLS + 1)]
    below = [*((each,) for each in ids), ()]
    categories = {
        id_: Category(id=id_, name=id_, depth=at, children=children, holds={} if children else held)
        for at, (id_, children) in enumerate(zip(["root", *ids], below, strict=True))
        for held in (dict.fromkeys((each.id for each in services), By.MODEL),)
    }
    return Taxonomy(name="main", of=Of.AGENTS, built_by="openai:m", categories=categories)


@pytest.fixture
def fake(fake: FakeOpenAI) -> FakeOpenAI:
    fake.answer = every
    return fake


SETTINGS = Settings(embedder="none", walk=MODEL, walk_max_calls=MOST_CALLS, openai_retries=0, openai_timeout_s=5.0)


@pytest.fixture(params=["default", "rfc", "router"])
def surface(request: pytest.FixtureRequest) -> Surface:
    chosen: Surface = request.param
    return chosen


@pytest.fixture
def service(fake: FakeOpenAI, tmp_path: Path, surface: Surface) -> Iterator[Served]:
    with served(auth=True, folder=tmp_path, surface=surface, settings=SETTINGS, environ=fake.environ) as running:
        fill(running.registry)
        yield running


def break_walk(failure: str, registry: LocalRegistry, fake: FakeOpenAI) -> str:
    """Brings it about; returns what is said of it to who sees what is public."""
    build = deep if failure == "budget spent" else by_hand(GROUPS)
    registry.build_taxonomy(build, private=failure == "tree of others")
    if failure == "no tree":
        registry.forget_taxonomy()
    fake.overloads = 10_000 if failure == "endpoint down" else 0
    answers = {"no numbers": lambda _: "I would rather not.", "nothing fits": lambda _: '{"numbers": []}'}
    fake.answer = answers.get(failure, every)
    seldom = {"no tree": NO_TAXONOMY, "tree of others": NO_TAXONOMY, "nothing fits": NOTHING_FITS}
    return seldom.get(failure, OPERATORS_FAILED)


FAILURES = ("endpoint down", "no numbers", "budget spent", "nothing fits", "no tree", "tree of others")


def test_each_door_says_that_no_walk_was_made(service: Served, surface: Surface, fake: FakeOpenAI) -> None:
    """Failure × door: with hybrid's answer beside it, and without a word of the operator's model."""
    key = service.key()
    silent: list[tuple[str, str]] = []
    for failure in FAILURES:
        reason = break_walk(failure, service.registry, fake)
        answers = {**ask_hosts(service, surface, key), **ask_rest(service, key), **ask_python(service, key)}
        for door, answer in answers.items():
            text = json.dumps(answer, default=repr)
            assert "create_issue" in text, (failure, door)
            assert not any(word in text for word in ("pricey", "127.0.0.1", "answers 429", "needs more", SECRET)), (
                door,
                text,
            )
            silent += [] if reason in text else [(failure, door)]
    assert silent == []
    assert "still answers 429" in service.log
    assert f"needs more than {MOST_CALLS} calls" in service.log


def ask_hosts(service: Served, surface: Surface, key: str) -> dict[str, Any]:
    """What a host is answered, by the meta-tool."""
    turns = {"history": [{"tool": "github__merge", "outcome": "failed"}]}
    calls: Mapping[Surface, Sequence[tuple[str, Mapping[str, Any]]]] = {
        "default": [
            ("find_tools", {"query": TEXT}),
            ("find_tools", {"query": TEXT, **turns}),
            ("find_tools", {"query": TEXT, "mode": "get_important"}),
            ("route_agents", {"query": TEXT}),
            ("route_agents", {"steps": STEPS}),
        ],
        "rfc": [("find_tools", {"query": TEXT})],
        "router": [("route", {"query": TEXT}), ("route", {"query": TEXT, **turns})],
    }
    answers: dict[str, Any] = {}

    async def ask() -> None:
        async with over_http(f"{service.url}/mcp", key=key) as host:
            for tool, arguments in calls[surface]:
                answers[f"{tool} {arguments}"] = told(await host.call_tool(tool, dict(arguments)))

    anyio.run(ask)
    return answers


def ask_rest(service: Served, key: str) -> dict[str, Any]:
    client = service.client(key)
    request = {"text": TEXT, "recipe": "taxonomy"}
    steps = {"steps": STEPS, "recipe": "taxonomy"}
    return {
        "/v1/route": assert_good(client.post("/v1/route", json=request)),
        "/v1/route, steps": assert_good(client.post("/v1/route", json=steps)),
        "/v1/route/batch": assert_good(client.post("/v1/route/batch", json={"requests": [request]})),
        "/v1/tools/search": assert_good(client.post("/v1/tools/search", json=request)),
    }


def ask_python(service: Served, key: str) -> dict[str, Any]:
    here = service.registry
    answers: dict[str, Any] = {
        "route": here.route(TEXT, recipe="taxonomy", principal=PUBLIC),
        "find_tools": here.find_tools(TEXT, recipe="taxonomy", principal=PUBLIC),
        "find": find(here, FindAsked(query=TEXT, recipe="taxonomy"), principal=PUBLIC),
    }
    with Registry.open(service.url, environ={"WAYGRAPH_API_KEY": key}) as remote:
        answers["route of a service"] = remote.route(TEXT, recipe="taxonomy")
        answers["find_tools of a service"] = remote.find_tools(TEXT, recipe="taxonomy")
    return answers


def modes_asked(fake: FakeOpenAI) -> set[str]:
    """What the selections since the last call looked for; forgets them."""
    tasks = {"Choose every service": "get_all", "Choose the services": "get_important", "Choose the one": "get_one"}
    systems = [request["messages"][0]["content"] for request in fake.requests]
    fake.requests.clear()
    return {mode for system in systems for task, mode in tasks.items() if system.startswith(task)}


def test_each_door_takes_a_mode_and_tells_all_that_was_selected(
    service: Served, surface: Surface, fake: FakeOpenAI
) -> None:
    """Whatever the limit; a door that names no mode selects all that could serve, and the one that routes one tool."""
    tools = {"github/create_issue", "github/list_issues", "github/merge", "tracker/create_issue"}
    service.registry.build_taxonomy(by_hand({"code": tuple(tools)}), of=Of.TOOLS)
    fake.answer = only("create_issue", "list_issues", "merge")
    key = service.key()
    client = service.client(key)
    for path in ("/v1/route", "/v1/tools/search"):
        for mode in ("get_all", "get_important"):
            body = {"text": TEXT, "recipe": "taxonomy", "mode": mode, "limit": 1}
            answer = assert_good(client.post(path, json=body))
            assert (set(answer["walked"]["selected"]), len(answer["matches"])) == (tools, 1)
            assert (answer["walked"]["mode"], modes_asked(fake)) == (mode, {mode})
        assert_problem(client.post(path, json={"text": TEXT, "mode": "get_one"}), 422, InvalidSetting)
        assert client.post(path, json=body | {"mode": "get_two"}).status_code == 422
    with Registry.open(service.url, environ={"WAYGRAPH_API_KEY": key}) as remote:
        found = remote.find_tools(TEXT, recipe=recipe_named("taxonomy", mode="get_one"))
        assert found.walked is not None
        assert (found.walked.mode, len(found.walked.selected), len(found.matches)) == ("get_one", 1, 1)
        assert modes_asked(fake) == {"get_one"}
        with pytest.raises(InvalidQuery):
            remote.route(TEXT, recipe=recipe_named("taxonomy", walk="openai:dear"))

    async def ask() -> None:
        async with over_http(f"{service.url}/mcp", key=key) as host:
            offered = (await host.list_tools()).tools[0].input_schema["properties"]
            assert ("mode" in offered) == (surface == "default")
            if surface == "router":
                best = told(await host.call_tool("route", {"query": TEXT}))["tool"]
                assert best["name"] in ("github__create_issue", "github__list_issues", "github__merge")
                assert modes_asked(fake) == {"get_one"}
                return
            found = told(await host.call_tool("find_tools", {"query": TEXT, "limit": 1}))
            assert ("selected" in found, modes_asked(fake)) == (False, {"get_all"})
            if surface == "default":
                found = told(await host.call_tool("find_tools", {"query": TEXT, "limit": 1, "mode": "get_important"}))
                assert (set(found["selected"]), len(found["tools"])) == (tools, 1)
                assert modes_asked(fake) == {"get_important"}
                error = error_of(await host.call_tool("find_tools", {"query": TEXT, "mode": "get_two"}))
                assert "get_important" in error["message"]

    anyio.run(ask)


def test_a_host_is_offered_a_mode_only_where_a_model_walks_a_tree_that_it_sees(fake: FakeOpenAI) -> None:
    async def offers(url: str) -> bool:
        async with over_http(url) as host:
            properties = (await host.list_tools()).tools[0].input_schema["properties"]
            refused = await host.call_tool("find_tools", {"query": TEXT, "mode": "get_one"})
            assert refused.is_error == ("/mode" in str(refused.content))
            return "mode" in properties

    for settings, expected in ((SETTINGS, True), (Settings(embedder="none"), False)):
        with served(settings=settings, environ=fake.environ) as service:
            fill(service.registry)
            assert not anyio.run(offers, f"{service.url}/mcp")
            service.registry.build_taxonomy(by_hand(GROUPS))
            assert anyio.run(offers, f"{service.url}/mcp") == expected


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A registry in a file, with a tree of tools over what everyone sees and what a board sees alone."""
    found = Place(tmp_path)
    groups = {
        "code": ("github/create_issue", "github/list_issues", "github/merge"),
        "desk": ("tracker/create_issue", "tracker/searchTickets"),
        "boardroom": (f"{SECRET}/create_issue", f"{SECRET}/sell_company"),
    }
    with LocalRegistry.open(found.registry, embedder="none") as registry:
        fill(registry)
        registry.build_taxonomy(by_hand(groups), of=Of.TOOLS, private=True, shown_to_all=True)
    return found


def prompts_of(fake: FakeOpenAI) -> list[dict[str, Any]]:
    """What was told since the last call; forgets it."""
    told_prompts = [json.loads(request["messages"][1]["content"]) for request in fake.requests]
    fake.requests.clear()
    return told_prompts


def walking(fake: FakeOpenAI) -> dict[str, str]:
    """The environment of a process whose operator has it walk."""
    return {**fake.environ, "WAYGRAPH_WALK": MODEL, "WAYGRAPH_OPENAI_RETRIES": "0"}


def test_a_service_walks_for_each_caller_what_it_sees(place: Place, fake: FakeOpenAI) -> None:
    """The installed commands: `serve`, and `route` and `find` of a person with a key."""
    keys = KeyFile(place.folder / "keys.json")
    fake.answer = only("create_issue")
    with process(place.registry, place.folder, keys=keys, environ=walking(fake)) as service:

        def run(key: str, *words: str) -> subprocess.CompletedProcess[str]:
            command = [*PROGRAM, "--registry", service.url, *words, "--recipe", "taxonomy"]
            environment = {**os.environ, "WAYGRAPH_API_KEY": key}
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

        public, board = service.key(), service.key(groups=(GROUP,))
        answer = json.loads(run(public, "find", TEXT, "--limit", "1", "--json").stdout)
        assert set(answer["walked"]["selected"]) == {"github/create_issue", "tracker/create_issue"}
        assert "company" not in json.dumps(prompts_of(fake))
        answer = json.loads(run(board, "find", TEXT, "--limit", "1", "--json").stdout)
        assert f"{SECRET}/create_issue" in answer["walked"]["selected"]
        assert "company" in json.dumps(prompts_of(fake))
        drawn = run(public, "find", TEXT, "--limit", "1", "--explain", "--mode", "get_important").stdout
        assert "walk get_important: 2 calls" in drawn
        assert "selected: " in drawn
        assert "tracker/create_issue" in drawn
        words = ("--step", TEXT, "--step", "search tickets by words", "--explain", "--failed", "github/merge")
        drawn = run(public, "route", *words).stdout
        assert f"walk get_all for {TEXT}: 2 calls" in drawn
        assert "walk get_all for search tickets by words: 2 calls" in drawn
        told_prompts = prompts_of(fake)
        assert all(each["history"] == [{"call": "github/merge", "outcome": "failed"}] for each in told_prompts[2:])
        fake.overloads = 99
        for verb in ("find", "route"):
            failed = run(public, verb, TEXT)
            assert f"Not walked: {OPERATORS_FAILED}" in failed.stderr
            answer = json.loads(run(public, verb, TEXT, "--json").stdout)
            assert notice_of(answer, "not_walked") == f"Not walked: {OPERATORS_FAILED}."
        assert "answers 429" in service.told


async def test_a_host_over_stdio_walks_with_the_calls_of_its_session(tmp_path: Path, fake: FakeOpenAI) -> None:
    """`mcp --surface router` over a real server: one tool by a walk for the single best, which is told what failed."""
    place = toolbox_place(tmp_path)
    with LocalRegistry.open(place.registry, embedder="none") as registry:
        put(registry, "paper", [agent("paper", tool("paper", "sum_up", "Add two whole numbers on paper"))])
        registry.build_taxonomy(by_hand({"code": [tool.id for tool in registry.tools()]}), of=Of.TOOLS)
    fake.answer = only("fail")
    launch = on_stdio(place, "--surface", "router", **walking(fake))
    async with Client(launch, mode="legacy") as host:
        assert told(await host.call_tool("route", {"query": "fail"}))["tool"]["name"] == "box__fail"
        assert modes_asked(fake) == {"get_one"}
        assert (await host.call_tool("execute", {"name": "box__fail", "params": {}})).is_error
        fake.answer = only("add")
        answer = told(await host.call_tool("route", {"query": "add two whole numbers"}))
        assert (answer["tool"]["name"], notice_of(answer, "not_walked")) == ("box__add", "")
        told_prompts = prompts_of(fake)
        assert [each["history"] for each in told_prompts] == [[{"call": "box/fail", "outcome": "failed"}]] * 2
        fake.answer = only("sum_up")  # which nothing runs here
        answer = told(await host.call_tool("route", {"query": "add two whole numbers"}))
        assert (answer["tool"]["name"], notice_of(answer, "not_walked")) == ("box__add", f"Not walked: {UNUSABLE}.")
        fake.overloads = 99
        answer = told(await host.call_tool("route", {"query": "add two whole numbers"}))
        assert (answer["tool"]["name"], notice_of(answer, "not_walked")) == (
            "box__add",
            f"Not walked: {OPERATORS_FAILED}.",
        )


def test_a_search_walks_once_however_much_policy_refuses(fake: FakeOpenAI) -> None:
    """More is read of what the one walk selected."""
    policy = CallPolicy(rules=(Rule(match="*", verdict="deny"),))
    with LocalRegistry.open(":memory:", settings=SETTINGS, environ=fake.environ) as registry:
        fill(registry)
        registry.build_taxonomy(by_hand(GROUPS))
        text = "create or list issues, delete a repository, merge a pull request, search tickets"
        answer = find(registry, FindAsked(query=text, limit=1, recipe="taxonomy"), principal=PUBLIC, policy=policy)
    refused = len(answer["not_callable"]) + answer["not_callable_more"]
    assert (answer["tools"], refused, len(fake.requests)) == ([], 6, 2)
