"""Manifests, settings of operators, removals over REST."""

import json
from typing import Any

import httpx2
import pytest
import yaml

from tests.service import agent, assert_good, assert_problem, ingest

NOTHING = {"created": [], "updated": [], "removed": [], "unchanged": 0}


def ids(client: httpx2.Client) -> list[str]:
    return [each["id"] for each in assert_good(client.get("/v1/agents"))["agents"]]


def revision(client: httpx2.Client) -> int:
    return int(assert_good(client.get("/v1/status"))["revision"])


def post(client: httpx2.Client, **body: object) -> dict[str, Any]:
    told: dict[str, Any] = assert_good(client.post("/v1/manifests", json=body))
    return told


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
