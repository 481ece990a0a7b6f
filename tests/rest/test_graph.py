"""The map of the whole and the graph around some nodes, over REST: as far as the caller sees."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.service import TIMEOUT_S, Served, agent, assert_good, assert_problem, ingest, served
from waygraph.api.rest.service import MOST_SLOW
from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, ServiceBusy, UnknownName
from waygraph.registry.model.nouns import Principal
from waygraph.registry.storage.export import map as export_map


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Served]:
    """Two open agents, one that only the board sees, in a toolset and a tree with the others."""
    with served(auth=True, folder=tmp_path) as service:
        admin = service.admin()
        ingest(admin, "open", agent("alpha", "look", "find"), agent("beta", "look"))
        ingest(admin, "corp", agent("zanzibar", "audit", visible_to=["board"]))
        service.registry.operator.set_toolset("all", agents=["alpha", "zanzibar"])
        service.registry.build_taxonomy(private=True, shown_to_all=True)
        yield service


def ids(view: dict[str, list[dict[str, str]]]) -> set[str]:
    return {node["id"] for node in view["nodes"]}


def test_an_agent_stands_among_its_own(example: Served) -> None:
    """Its tools, its source, and what is like it; of a node that is not opened it is told how many follow."""
    client = example.client()
    view = assert_good(client.get("/v1/graph", params={"around": "agent:trencher-tables"}))
    first, *others = view["nodes"]
    assert (first["id"], first["centre"], first["more"]) == ("agent:trencher-tables", True, 0)
    assert {node["kind"] for node in others} == {"tool", "source", "agent"}
    assert {edge["kind"] for edge in view["edges"]} == {"owns", "claims", "similar"}
    assert all({edge["start"], edge["end"]} <= ids(view) for edge in view["edges"])
    source = next(node for node in others if node["kind"] == "source")
    assert source["more"] == 36 - sum(node["kind"] == "agent" for node in view["nodes"])
    [near] = {edge["kind"] for edge in view["edges"] if edge["weight"]}
    assert near == "similar"


def test_kinds_and_the_limit_hold(example: Served) -> None:
    client = example.client()
    ask: dict[str, Any] = {"around": ["agent:trencher-tables", "agent:harbor-git"], "kinds": ["owns"], "limit": 5}
    view = assert_good(client.get("/v1/graph", params=ask))
    assert len(view["nodes"]) == 5
    assert [node["centre"] for node in view["nodes"]] == [True, True, False, False, False]
    assert {edge["kind"] for edge in view["edges"]} == {"owns"}
    assert {edge["start"] for edge in view["edges"]} == {"agent:trencher-tables", "agent:harbor-git"}, "each in turn"
    assert view["nodes"][0]["more"] > 0


@pytest.mark.parametrize(
    ("ask", "status", "error"),
    [
        ({}, 422, "invalid-request"),
        ({"around": "agent:none"}, 404, UnknownName),
        ({"around": "tool:trencher-tables/none"}, 404, UnknownName),
        ({"around": "agent:trencher-tables", "kinds": "loves"}, 422, "invalid-request"),
        ({"around": "agent:trencher-tables", "limit": 301}, 422, "invalid-request"),
        ({"around": "trencher-tables"}, 422, InvalidQuery),
    ],
)
def test_what_cannot_be_drawn_is_refused(example: Served, ask: dict[str, str], status: int, error: object) -> None:
    response = example.client().get("/v1/graph", params=ask)
    assert_problem(response, status, error)  # type: ignore[arg-type]


def test_a_caller_of_a_group_sees_nothing_of_others(grouped: Served) -> None:
    """Neither on the map nor around any node; to ask for it is to ask for what is not there."""
    stranger, board = grouped.caller(groups=("staff",)), grouped.caller(groups=("board",))
    centres = ["agent:alpha", "agent:beta", "source:open", "toolset:all", "category:", "tool:alpha/look"]
    for path, params in (("/v1/map", {}), ("/v1/graph", {"around": centres, "limit": "300"})):
        response = stranger.get(path, params=params)
        assert_good(response)
        assert "zanzibar" not in response.text
        assert "corp" not in response.text
        assert "zanzibar" in board.get(path, params=params).text
    hidden, absent = (stranger.get("/v1/graph", params={"around": node}) for node in ("agent:zanzibar", "agent:nobody"))
    texts = [each.json()["detail"].replace("zanzibar", "nobody") for each in (hidden, absent)]
    assert texts[0] == texts[1]
    for node in ("source:corp", "tool:zanzibar/audit"):
        assert_problem(stranger.get("/v1/graph", params={"around": node}), 404, UnknownName)


def test_a_map_shows_what_its_caller_sees_as_if_there_were_no_more(grouped: Served, tmp_path: Path) -> None:
    """Each agent and tool once, at the same place as in a registry that holds nothing else."""
    seen = assert_good(grouped.caller(groups=("staff",)).get("/v1/map"))
    with served(folder=tmp_path / "other") as other:
        ingest(other.client(), "open", agent("alpha", "look", "find"), agent("beta", "look"))
        whole = assert_good(other.client().get("/v1/map"))
    assert [each["id"] for each in seen["tools"]] == ["alpha/find", "alpha/look", "beta/look"]
    assert {**seen, "revision": 0} == {**whole, "revision": 0}


def test_a_map_is_made_once_a_revision(grouped: Served) -> None:
    admin = grouped.admin()
    first = admin.get("/v1/map")
    assert admin.get("/v1/map", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    kept = grouped.registry.operator.draw_map()
    draw = grouped.registry.operator.draw_map
    assert draw() is kept
    assert draw(principal=Principal(operates=True)) is not draw(principal=Principal()), "one reads tags of what waits"
    ingest(admin, "open", agent("alpha", "look"), agent("beta", "look"))
    assert len(draw().tools) < len(kept.tools)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/map", 200), ("POST", "/v1/sources/open/sync", 422)]
)
def test_what_takes_long_keeps_nobody_else_waiting(
    grouped: Served, monkeypatch: pytest.MonkeyPatch, method: str, path: str, status: int
) -> None:
    """Two are at work and so many wait; who wants a map that is there, or other slow work, is served meanwhile."""
    everything = method == "POST"  # who syncs sees everything
    admin, staff = (
        grouped.admin(),
        grouped.caller("read", "write", groups=() if everything else ("staff",), everything=everything),
    )
    begun, ending, lay_out = threading.Event(), threading.Event(), export_map.lay_out_map
    drawn = assert_good(admin.get("/v1/map"))

    def hold_up() -> None:
        begun.set()
        assert ending.wait(TIMEOUT_S)

    def lay_out_slowly(*parts: Any) -> Any:
        hold_up()
        return lay_out(*parts)

    def sync_slowly(name: str) -> Any:
        hold_up()
        raise InvalidSetting(name)

    monkeypatch.setattr(export_map, "lay_out_map", lay_out_slowly)
    monkeypatch.setattr(grouped.service.follower, "sync", sync_slowly)
    with ThreadPoolExecutor(MOST_SLOW + 5) as pool:
        try:
            asked = [pool.submit(staff.request, method, path)]
            assert begun.wait(TIMEOUT_S)
            assert assert_good(admin.get("/v1/map")) == drawn
            asked += [pool.submit(staff.request, method, path) for _ in range(MOST_SLOW + 4)]
            for done in islice(as_completed(asked, TIMEOUT_S), 3):
                assert_problem(done.result(), 503, ServiceBusy)
            assert admin.get("/v1/export").status_code == 200
        finally:
            ending.set()
    statuses = [done.result().status_code for done in asked]
    assert set(statuses) == {status, 503}
    assert statuses.count(status) > MOST_SLOW
