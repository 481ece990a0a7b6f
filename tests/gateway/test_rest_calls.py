"""Tools over REST: what holds for a call of a host holds here, and nobody can be asked."""

import json
from pathlib import Path

from tests.gateway.hosts import Place
from tests.service import Served, assert_good, assert_problem, served
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated
from waygraph.registry.model.settings import Settings

POLICY = """
[[rules]]
match = "box/erase"
verdict = "ask"
"""


def test_a_tool_runs_by_its_id_and_its_call_name(service: Served) -> None:
    for name in ("box/add", "box__add"):
        told = assert_good(service.client().post(f"/v1/tools/{name}/call", json={"arguments": {"a": 2, "b": 3}}))
        assert told == {"content": [{"type": "text", "text": "5"}], "structuredContent": {"total": 5}}
    painted = assert_good(service.client().post("/v1/tools/box/paint/call", json={}))
    assert painted["content"][2] == {"type": "hologram", "depth": 3}, "as the server had it"
    assert painted["signature"] == "toolbox"
    failed = assert_good(service.client().post("/v1/tools/box/fail/call", json={}))
    assert failed == {"content": [{"type": "text", "text": "the door is locked"}], "isError": True}


def test_what_stands_against_a_call_is_told(service: Served) -> None:
    client = service.client()
    told = assert_problem(client.post("/v1/tools/box/add/call", json={"arguments": {"a": 1}}), 422, "invalid-arguments")
    assert "b" in str(told["facts"]["faults"])
    assert_problem(client.post("/v1/tools/box/none/call", json={}), 404, "unknown-name")
    assert_problem(client.post("/v1/tools/box/add/call", json={"params": {}}), 422, "invalid-request")
    late = assert_problem(client.post("/v1/tools/box/wait/call", json={"timeout_s": 0.3}), 504, "call-timed-out")
    assert late["facts"]["timeout_s"] == 0.3
    refused = assert_problem(client.post("/v1/tools/box/refuse/call", json={}), 502, "upstream-answered")
    assert "no paper left" in refused["detail"]


def test_what_a_person_has_to_agree_to_does_not_run(toolbox: Place, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    before = toolbox.notes.count("erased")
    with served(toolbox.registry, settings=Settings(policy_file=str(policy))) as careful:
        told = assert_problem(careful.client().post("/v1/tools/box/erase/call", json={}), 403, "needs-consent")
        assert "WAYGRAPH_POLICY_FILE" in told["detail"]
    assert toolbox.notes.count("erased") == before


def test_a_call_needs_its_scope_and_is_recorded(guarded: Served) -> None:
    asked = {"arguments": {"a": 1, "b": 1}}
    assert_problem(guarded.client().post("/v1/tools/box/add/call", json=asked), 401, NotAuthenticated)
    assert_problem(guarded.caller("route", "read").post("/v1/tools/box/add/call", json=asked), 403, NotAllowed)
    assert_good(guarded.caller("use", everything=True).post("/v1/tools/box/add/call", json=asked))
    calls = [line for line in map(json.loads, guarded.log.splitlines()) if line.get("action") == "call"]
    assert [(call["target"], call["outcome"]) for call in calls] == [("box/add", "refused"), ("box/add", "ok")]
    assert calls[1]["parameters"] == ["a", "b"]
