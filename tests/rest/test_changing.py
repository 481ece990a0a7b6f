"""Manifests, settings of operators, removals over REST."""

import json
from typing import Any

import httpx2
import pytest
import yaml

from tests.service import agent, assert_good, assert_problem, ingest, served

NOTHING = {"created": [], "updated": [], "removed": [], "unchanged": 0}


def ids(client: httpx2.Client) -> list[str]:
    return [each["id"] for each in assert_good(client.get("/v1/agents"))["agents"]]


def revision(client: httpx2.Client) -> int:
    return int(assert_good(client.get("/v1/status"))["revision"])


def post(client: httpx2.Client, **body: object) -> dict[str, Any]:
    told: dict[str, Any] = assert_good(client.post("/v1/manifests", json=body))
    return told


def test_a_manifest_makes_a_registry_and_then_changes_it(client: httpx2.Client) -> None:
    first = ingest(client, "s", agent("a", "look", "say"), agent("b"))
    assert (first["source"], first["revision"], first["dry_run"], first["notice"]) == ("s", 1, False, "")
    assert first["agents"] == {**NOTHING, "created": ["a", "b"]}
    assert first["tools"] == {**NOTHING, "created": ["a/look", "a/say"]}
    changed = agent("a", "look", "sing")
    changed["tools"][0]["description"] = "another"
    second = ingest(client, "s", changed, agent("b"))
    assert second["tools"] == {
        "created": ["a/sing"],
        "updated": [{"id": "a/look", "fields": ["description"]}],
        "removed": ["a/say"],
        "unchanged": 0,
    }
    assert second["changed_behaviour"] == [{"id": "a/look", "fields": ["description"]}]
    assert ingest(client, "s", changed, agent("b"))["revision"] == second["revision"] == 2


def test_a_dry_run_says_it_all_and_changes_nothing(client: httpx2.Client) -> None:
    told = ingest(client, "s", agent("a", "look"), dry_run=True)
    assert (told["dry_run"], told["revision"], told["agents"]["created"]) == (True, 0, ["a"])
    assert_problem(client.get("/v1/agents"), 404, "registry-not-found")
    ingest(client, "s", agent("a", "look"), agent("b"), agent("c"))
    told = ingest(client, "s", agent("a", "look"), agent("c"), dry_run=True)
    assert told["agents"] == {**NOTHING, "removed": ["b"], "unchanged": 2}
    assert ids(client) == ["a", "b", "c"]
    assert revision(client) == 1


def test_documents_are_read_as_the_files_they_are(client: httpx2.Client) -> None:
    """JSON or YAML, several together, each named in what is rejected of it."""
    files = [
        {"name": "one.yaml", "text": yaml.safe_dump({"waygraph": 1, "agents": [agent("a", "look")]})},
        {"name": "two.json", "text": json.dumps({"waygraph": 1, "agents": [agent("b"), {"id": ""}]})},
    ]
    [report] = post(client, source="s", documents=files)["reports"]
    assert report["agents"]["created"] == ["a", "b"]
    assert [each["where"] for each in report["rejected"]] == ["two.json#/agents/1"]
    assert "Some of the source could not be read" in report["notice"]


def test_an_export_brings_several_sources(client: httpx2.Client) -> None:
    ingest(client, "one", agent("a", "look"))
    ingest(client, "two", agent("b"), agent("a2"))
    exported = client.get("/v1/export").json()
    with served() as other:
        there = other.client()
        told = post(there, source="copy", manifest=exported)
        assert [report["source"] for report in told["reports"]] == ["one", "two"]
        assert ids(there) == ["a", "a2", "b"]
        again = there.get("/v1/export").json()
    assert {**again, "revision": 0} == {**exported, "revision": 0}


def test_what_is_rejected_costs_itself_alone(client: httpx2.Client) -> None:
    report = ingest(
        client, "s", agent("a", "look", "look"), {"name": "no id"}, agent("c", kind="robot"), agent("d", tags="x")
    )
    assert report["agents"]["created"] == ["a"]
    assert len(report["rejected"]) == 4
    assert all(each["where"] and each["reason"] for each in report["rejected"])


UNREADABLE: dict[str, dict[str, object]] = {
    "no manifest at all": {"manifest": {"colour": "red"}},
    "a number": {"documents": [{"name": "a.json", "text": "1"}]},
    "broken JSON": {"documents": [{"name": "a.json", "text": "{"}]},
    "broken YAML": {"documents": [{"name": "a.yaml", "text": "a: [b"}]},
    "YAML that makes objects": {"documents": [{"name": "a.yaml", "text": "!!python/object/apply:os.system [ls]"}]},
    "YAML of many references": {
        "documents": [{"name": "a.yaml", "text": "a: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]"}]
    },
    "a half of a pair": {"documents": [{"name": "a.yaml", "text": "a: \ud800"}]},
    "deep JSON": {"documents": [{"name": "a.json", "text": "[" * 100_000}]},
    "deep YAML": {"documents": [{"name": "a.yaml", "text": "[" * 3_000}]},
    "an export of another version": {"manifest": {"waygraph_export": 9, "agents": [], "sources": []}},
    "an export out of shape": {"manifest": {"waygraph_export": 1, "agents": [], "sources": [{"name": "x"}]}},
    "a kind that is none": {"manifest": {}, "kind": "cobol"},
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_source_that_cannot_be_read_changes_nothing(client: httpx2.Client, name: str) -> None:
    body = json.dumps({"source": "s", **UNREADABLE[name]}).encode()
    response = client.post("/v1/manifests", content=body, headers={"Content-Type": "application/json"})
    assert response.json()["code"] in ("source-error", "unknown-name", "invalid-request", "invalid-setting")
    assert_problem(response, 422, response.json()["code"])
    assert_problem(client.get("/v1/status"), 404, "registry-not-found")


def test_settings_hold_beside_what_the_source_says(client: httpx2.Client) -> None:
    ingest(client, "s", agent("a", visible_to=["g"]))
    rest = {"agent_id": "a", "removed": False, "tools": None, "rejections": None}
    said = rest | {"tags": ["a", "b"], "visible_to": None, "pinned": True, "hidden": False}

    def patched(**changes: object) -> dict[str, Any]:
        told: dict[str, Any] = assert_good(client.patch("/v1/agents/a", json=changes))
        assert assert_good(client.get("/v1/agents/a"))["settings"] == told
        return told

    assert patched(pinned=True, tags=["b", "a", "b"]) == said
    assert patched(visible_to=["h"]) == {**said, "visible_to": ["h"]}
    assert assert_good(client.get("/v1/agents/a"))["agent"]["visible_to"] == ["h"]
    assert patched(visible_to=None) == said
    assert assert_good(client.get("/v1/agents/a"))["agent"]["visible_to"] == ["g"]
    assert patched(tags=[], pinned=None) == {**said, "tags": []}
    assert patched(hidden=True)["hidden"]
    ingest(client, "s", agent("a", visible_to=["g"]), agent("b"))
    assert assert_good(client.get("/v1/agents/a"))["agent"]["hidden"]
