"""What is held, over REST: agents, tools, sources, status, export."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service import Served, agent, assert_careful, assert_good, ingest
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import About

AGENT, TOOL, CALL_NAME = "trencher-tables", "trencher-tables/reserve", "trencher-tables__reserve"


@pytest.fixture(scope="module")
def client(example: Served) -> httpx2.Client:
    return example.client()


def get(client: httpx2.Client, path: str, **params: Any) -> dict[str, Any]:
    told: dict[str, Any] = assert_good(client.get(path, params=params or None))
    return told


def test_an_agent_is_told_whole(example: Served, client: httpx2.Client) -> None:
    assert shapes.read(About, get(client, f"/v1/agents/{AGENT}", schema=True)) == example.registry.about(AGENT)
    brief = get(client, f"/v1/agents/{AGENT}")
    cannot_run = {"cannot_run": "it is known from a catalogue only"}
    assert brief == shapes.about(example.registry.about(AGENT), schemas=False) | cannot_run
    assert brief["sources"] == ["examples/catalog"]


def test_agents_are_searched_by_words_state_source_and_tools(blank: Served) -> None:
    """Words may stand in any text, and in the id of a tool; what several filters say has to fit together."""
    client = blank.client()
    ingest(client, "harbour", agent("quay", "tie_up", "let_go", description="Berths for ÖSTER"), agent("pilot"))
    ingest(client, "town", agent("mill", tags=["grain"]))
    blank.registry.operator.set("pilot", hidden=True)

    def found(**params: Any) -> list[str]:
        return [each["id"] for each in get(client, "/v1/agents", **params)["agents"]]

    assert found(text="öster berth") == found(text="quay/tie") == found(least_tools=2) == ["quay"]
    assert found(text="GRAIN") == found(source="town") == ["mill"]
    assert found(state="hidden") == ["pilot"]
    assert found(state=["hidden", "waiting"], source="town") == []
    assert found(source="harbour", agent="quay") == ["quay"]
    assert found(state="runs") == []
    assert {each["cannot_run"] for each in get(client, "/v1/agents")["agents"]} == {"it is known from a catalogue only"}


def test_a_search_finds_no_words_that_the_caller_may_not_see(guarded: Served) -> None:
    ingest(guarded.admin(), "s", agent("seen"), agent("secret", "hush", visible_to=["few"]))
    for params in ({"text": "hush"}, {"text": "secret"}, {"source": "s", "text": "does secret"}):
        assert get(guarded.caller("read"), "/v1/agents", **params)["agents"] == []
        assert len(get(guarded.caller("read", groups=("few",)), "/v1/agents", **params)["agents"]) == 1


def test_a_tool_tells_admins_what_operators_changed(guarded: Served) -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string"}, "at": {"type": "string"}}}
    tools = [{"name": "look", "description": "look", "inputSchema": schema}]
    ingest(guarded.admin(), "s", agent("a") | {"tools": tools})
    assert get(guarded.admin(), "/v1/tools/a/look", schema=True)["source_form"] is None
    guarded.registry.operator.set_tool("a/look", {"name": "see", "parameters": {"key": {"pin": "s3cret"}}})
    form = get(guarded.admin(), "/v1/tools/a/look", schema=True)["source_form"]
    assert form["setting"]["name"] == "see"
    assert form["setting"]["parameters"] == {"key": {"pin": "s3cret"}}
    assert set(form["input_schema"]["properties"]) == {"key", "at"}
    assert "s3cret" not in json.dumps(get(guarded.caller("read", everything=True), "/v1/tools/a/look", schema=True))


@pytest.mark.parametrize("tool_name", ["a/b", "search", "a b", "ü", "a%b", "a?b", "..", "a/../b", "x__y"])
def test_a_tool_of_any_name_is_found(blank: Served, tool_name: str) -> None:
    """Names are those of their sources: slashes, blanks and other letters are told apart."""
    client = blank.client()
    ingest(client, "s", agent("own", tool_name))
    [listed] = get(client, "/v1/tools")["tools"]
    assert get(client, f"/v1/tools/{listed['call_name']}") == listed
    raw = blank.raw(
        f"GET /v1/tools/own/{_quoted(tool_name)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert json.loads(raw.partition(b"\r\n\r\n")[2]) == listed


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


@pytest.mark.parametrize(
    ("form", "media_type"),
    [("json", "application/json"), ("graphml", "application/graphml+xml"), ("html", "text/html; charset=utf-8")],
)
def test_an_export_is_the_registrys_own(example: Served, client: httpx2.Client, form: Any, media_type: str) -> None:
    response = client.get("/v1/export", params={"format": form})
    assert response.status_code == 200
    assert_careful(response)
    assert response.headers["content-type"] == media_type
    assert response.headers["content-disposition"] == f'attachment; filename="registry.{form}"'
    assert response.content == example.registry.operator.export(form).encode()


PATHS = {"/v1/agents": "agents", "/v1/tools": "tools", "/v1/tools?agent=trencher-tables": "tools"}


def parts(client: httpx2.Client, path: str, noun: str, limit: int) -> Iterator[list[str]]:
    cursor = ""
    while True:
        told = assert_good(client.get(httpx2.URL(path).copy_merge_params({"limit": limit, "cursor": cursor})))
        yield [each["id"] for each in told[noun]]
        cursor = told["following"]
        if not cursor:
            return


@pytest.mark.parametrize("path", PATHS)
@given(limit=st.integers(1, 250))
@settings(max_examples=15)
def test_the_parts_are_the_whole(example: Served, path: str, limit: int) -> None:
    """Nothing twice, nothing left out, each part but the last full, the last never empty."""
    client = example.client()
    whole = [
        each["id"] for each in assert_good(client.get(httpx2.URL(path).copy_merge_params({"limit": 1000})))[PATHS[path]]
    ]
    found = list(parts(client, path, PATHS[path], limit))
    assert [each for part in found for each in part] == whole == sorted(whole)
    assert all(len(part) == limit for part in found[:-1])
    assert 1 <= len(found[-1]) <= limit


def test_what_stays_is_told_once_whatever_changes_meanwhile(blank: Served) -> None:
    """An agent that is there from the first part to the last is told exactly once, also if the one at which the list
    was cut is gone; each part says of which revision it is.
    """
    client = blank.client()
    ingest(client, "s", *(agent(f"a{number}") for number in range(6)))
    first = assert_good(client.get("/v1/agents", params={"limit": 2}))
    ingest(client, "s", *(agent(f"a{number}") for number in (0, 2, 3, 4, 5)), agent("a00"), agent("a25"))
    second = assert_good(client.get("/v1/agents", params={"limit": 2, "cursor": first["following"]}))
    ingest(client, "s", *(agent(f"a{number}") for number in (0, 2, 3, 4, 5)), allow_mass_removal=True)
    third = assert_good(client.get("/v1/agents", params={"limit": 9, "cursor": second["following"]}))
    ids = [each["id"] for part in (first, second, third) for each in part["agents"]]
    assert ids == ["a0", "a1", "a2", "a25", "a3", "a4", "a5"]
    assert first["revision"] < second["revision"] < third["revision"]
    assert third["following"] == ""
