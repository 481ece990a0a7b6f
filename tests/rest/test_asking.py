"""Routes, batches, searches and recipes over REST."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2
import pytest

from tests.gateway.hosts import over_http
from tests.gateway.hosts import told as told_of
from tests.service import Served, assert_good, assert_problem, served
from waygraph.api.rest.problems import as_json
from waygraph.registry.catalog.tool_formats import TOOL_FORMATS
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.router import NOTHING_FITS

TABLE = "book a table for four"
BRIEF = {"id", "agent_id", "name", "call_name", "description", "tags", "status", "pending", "flags", "rejection"}
WHOLE = BRIEF | {"input_schema", "output_schema", "annotations", "questions", "content_hash", "approved_hash"}


@pytest.fixture(scope="module")
def client(example: Served) -> httpx2.Client:
    return example.client()


def route(client: httpx2.Client, **asked: object) -> dict[str, Any]:
    told: dict[str, Any] = assert_good(client.post("/v1/route", json=asked))
    return told


def found(told: Mapping[str, Any]) -> list[str]:
    return [match["agent"]["id"] for match in told["matches"]]


def test_a_strict_question_is_withheld_and_names_the_nearest(client: httpx2.Client, catalogue_file: Path) -> None:
    """Over REST by the request, over MCP by the policy; else it is answered, with how likely it is right."""
    text = "supernova remnants in dwarf galaxies"
    for path, best in (("/v1/route", ("agent", "id")), ("/v1/tools/search", ("tool", "call_name"))):
        open_minded, withheld = (
            assert_good(client.post(path, json={"text": text, "strict": strict})) for strict in (False, True)
        )
        assert (withheld["matches"], withheld["reason"]) == ([], NOTHING_FITS)
        assert withheld["nearest"] == [match[best[0]][best[1]] for match in open_minded["matches"][:3]]
        assert withheld["confidence"] == open_minded["confidence"] < 0.25
        assert (open_minded["nearest"], withheld["query"]["strict"]) == ([], True)
    with policy_service(catalogue_file, "") as free, policy_service(catalogue_file, "strict = true") as strict:
        for tool, part in (("find_tools", "tools"), ("route_agents", "agents")):
            answer, none = (over_mcp(service, tool, query=text) for service in (free, strict))
            assert answer[part]
            assert answer["confidence"] < 0.25
            assert (none[part], none["reason"], len(none["nearest"])) == ([], NOTHING_FITS, 3)


HISTORY = [
    {"role": "user", "text": "secret words about the weather in Oslo"},
    {"role": "call", "tool": "nimbus-desk/getCurrent", "result": "secret"},
    {"role": "call", "tool": "nowhere/none", "outcome": "failed"},
    {"role": "assistant", "text": "It rains. Do you want the weather of another town?"},
]


@pytest.mark.parametrize("path", ["/v1/route", "/v1/tools/search"])
def test_the_turns_before_a_request_count_and_are_not_repeated(client: httpx2.Client, path: str) -> None:
    asked = {"text": "and now the same for Berlin", "explain": True}
    plain, told = (assert_good(client.post(path, json={**asked, "history": turns})) for turns in ([], HISTORY))
    assert plain | {"elapsed_ms": 0} == assert_good(client.post(path, json=asked)) | {"elapsed_ms": 0}
    best = told["matches"][0]
    assert best["agent"]["id"] == "nimbus-desk"
    assert "used" in {vote["leg"] for vote in best["votes"]}
    assert any("turns 3" in notice["text"] for notice in told["notices"])
    assert "secret" not in json.dumps(told)
    assert told["query"] == plain["query"]


def test_a_history_is_in_no_log_and_no_audit(catalogue_file: Path, tmp_path: Path) -> None:
    """Not at level debug either, and not if it is refused."""
    audit = tmp_path / "audit.jsonl"
    settings = Settings(audit_file=str(audit), log_level="debug", audit_arguments=True)
    with served(catalogue_file, embedder="", settings=settings, folder=tmp_path) as service:
        for path in ("/v1/route", "/v1/tools/search"):
            for turns, status in ((HISTORY, 200), ([*HISTORY, {"role": "call", "text": "secret"}], 422)):
                answer = service.client().post(path, json={"text": "and now Berlin", "history": turns})
                assert answer.status_code == status
        logged = service.log + (audit.read_text(encoding="utf-8") if audit.exists() else "")
    assert "/v1/tools/search" in logged
    assert not [word for word in ("secret", "nimbus", "nowhere", "Oslo") if word in logged]


@pytest.mark.parametrize("path", ["/v1/route", "/v1/tools/search"])
@pytest.mark.parametrize(
    ("turns", "told"),
    [
        ([{"role": "user"}, {"role": "tool", "text": "secret"}], "body.history.1.role"),
        ([{"role": "user", "content": "secret"}], "body.history.0.content"),
        ([{"role": "user"}, {"role": "call", "text": "secret"}], "turn 2 of the history"),
        ([{"role": "user", "text": "secret" * 2_000}], "turn 1 of the history"),
        ([{"role": "user"}] * 201, "at most 200 turns"),
    ],
)
def test_a_turn_that_is_none_is_told_by_its_place(client: httpx2.Client, path: str, turns: object, told: str) -> None:
    answer = client.post(path, json={"text": TABLE, "history": turns})
    assert answer.status_code == 422
    assert told in answer.text
    assert "secret" not in answer.text


def test_a_history_of_ten_megabytes_is_refused_unread(client: httpx2.Client) -> None:
    history = [{"role": "user", "text": "x" * 50_000}] * 200
    assert_problem(client.post("/v1/route", json={"text": TABLE, "history": history}), 413, "too-large")


@contextmanager
def policy_service(place: Path, policy: str) -> Iterator[Served]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.toml"
        path.write_text(policy)
        with served(place, embedder="", settings=Settings(policy_file=str(path))) as service:
            yield service


def over_mcp(service: Served, tool: str, **arguments: object) -> Any:
    async def call() -> Any:
        async with over_http(f"{service.url}/mcp") as host:
            return told_of(await host.call_tool(tool, arguments))

    return anyio.run(call)


def test_a_brief_route_tells_neither_votes_nor_schemas(client: httpx2.Client) -> None:
    brief, explained = route(client, text=TABLE), route(client, text=TABLE, explain=True, schema=True)
    assert all(match["votes"] == [] for match in brief["matches"])
    assert all(match["votes"] for match in explained["matches"])
    assert {frozenset(tool) for match in brief["matches"] for tool in match["tools"]} == {frozenset(BRIEF)}
    assert {frozenset(tool) for match in explained["matches"] for tool in match["tools"]} == {frozenset(WHOLE)}
    assert found(brief) == found(explained)
    assert "definitions" not in brief


@pytest.mark.parametrize("tool_format", TOOL_FORMATS)
def test_definitions_go_by_call_names_that_lead_back(client: httpx2.Client, tool_format: str) -> None:
    """Whatever the host, the name that it is given is one that `/v1/tools/{call_name}` knows as that tool."""
    told = assert_good(client.post("/v1/tools/search", json={"text": TABLE, "limit": 4, "format": tool_format}))
    tools = [match["tool"] for match in told["matches"]]
    assert names(told["definitions"]) == [tool["call_name"] for tool in tools]
    for tool in tools:
        assert assert_good(client.get(f"/v1/tools/{tool['call_name']}")) == tool
    routed = route(client, text=TABLE, format=tool_format)
    assert names(routed["definitions"]) == [t["call_name"] for match in routed["matches"] for t in match["tools"]]


def names(definitions: list[dict[str, Any]]) -> list[str]:
    """As each host has them."""
    declared = [each for one in definitions for each in one.get("functionDeclarations", [one])]
    return [str(each.get("function", each)["name"]) for each in declared]


def test_a_batch_answers_each_and_tells_what_is_wrong_with_one(client: httpx2.Client) -> None:
    """One bad request costs that request; its problem has the shape of all problems."""
    asked = [{"text": TABLE, "limit": 1}, {"text": TABLE, "recipe": "hybird"}, {"steps": [TABLE]}, {"text": "  "}]
    response = client.post("/v1/route/batch", json={"requests": asked})
    answers = assert_good(response)["answers"]
    assert [answer["problem"] and answer["problem"]["code"] for answer in answers] == [
        None,
        "unknown-recipe",
        None,
        "invalid-query",
    ]
    assert found(answers[0]["route"]) == ["trencher-tables"]
    problem = answers[1]["problem"]
    assert answers[1]["route"] is None
    assert problem["facts"] == {"noun": "recipe", "name": "hybird", "nearest": ["hybrid"]}
    assert problem["status"] == 422
    assert problem["instance"] == f"urn:waygraph:request:{response.headers['x-request-id']}"


ROUTES_OUT_OF_SHAPE: dict[str, object] = {
    "neither text nor steps": {},
    "a split that is a text": {"text": "a", "by_steps": "openai:m"},
    "an unknown field": {"text": "a", "txet": "b"},
    "a text that is none": {"text": 1},
    "steps that are a text": {"steps": "a"},
    "no limit at all": {"text": "a", "limit": 0},
    "a huge limit": {"text": "a", "limit": 1001},
    "a limit that is a text": {"text": "a", "limit": "5"},
    "a limit that is a truth": {"text": "a", "limit": True},
    "a negative weight": {"text": "a", "agent_weight": -1},
    "a kind that is none": {"text": "a", "filters": {"kinds": ["robot"]}},
    "an unknown filter": {"text": "a", "filters": {"owner": "b"}},
    "a format that is none": {"text": "a", "format": "cobol"},
    "too many steps": {"steps": ["a"] * 51},
    "a list": [],
}


@pytest.mark.parametrize("name", ROUTES_OUT_OF_SHAPE)
def test_a_request_out_of_shape_is_told_where(client: httpx2.Client, name: str) -> None:
    told = assert_problem(client.post("/v1/route", json=ROUTES_OUT_OF_SHAPE[name]), 422, "invalid-request")
    assert told["facts"]["faults"]
    assert all(set(fault) == {"at", "reason"} for fault in told["facts"]["faults"])
    assert all(fault["at"].startswith("body") for fault in told["facts"]["faults"])


def test_what_is_not_json_is_refused(client: httpx2.Client) -> None:
    as_json = {"Content-Type": "application/json"}
    assert_problem(client.post("/v1/route", content=b'{"text": ', headers=as_json), 400, "bad-request")
    assert_problem(client.post("/v1/route", content=b'"\xff"', headers=as_json), 400, "bad-request")
    assert_problem(client.post("/v1/route", content=b"null", headers=as_json), 422, "invalid-request")
    assert_problem(client.post("/v1/route", headers=as_json), 422, "invalid-request")
    told = assert_problem(client.post("/v1/route", data={"text": "a"}), 415, "media-type")
    assert "application/json" in told["detail"]
    text = {"Content-Type": "text/plain"}
    assert_problem(client.post("/v1/route", content=b'{"text": "a"}', headers=text), 415, "media-type")


def test_an_answer_may_hold_whatever_json_can() -> None:
    """Schemas are as deep as their authors make them, and texts hold half characters."""
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    shape = {"deep": deep, "large": 10**30, "small": 1e-7, "half": "a\ud800", "other": "\u2028é订"}
    assert json.loads(bytes(as_json(shape).body)) == {**shape, "half": "a?"}
    assert as_json({"a": [1, "é"]}).body == '{"a":[1,"é"]}'.encode()
