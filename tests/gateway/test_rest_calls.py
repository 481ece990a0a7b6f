"""Tools over REST: what holds for a call of a host holds here, and nobody can be asked."""

import json
from pathlib import Path

import pytest

from tests.gateway.hosts import Place
from tests.service import Served, assert_good, assert_problem, served, until
from waygraph.api.rest import recorded_calls
from waygraph.api.rest.recorded_calls import RecordedCalls, note_result
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.errors import InvalidQuery, NotAllowed, NotAuthenticated
from waygraph.registry.model.settings import Settings


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """A person has to agree that `box/erase` runs."""
    path = tmp_path / "policy.toml"
    path.write_text('[[rules]]\nmatch = "box/erase"\nverdict = "ask"\n')
    return str(path)


def test_a_tool_runs_by_its_id_and_its_call_name(service: Served) -> None:
    for name in ("box/add", "box__add"):
        told = assert_good(service.client().post(f"/v1/tools/{name}/call", json={"arguments": {"a": 2, "b": 3}}))
        assert told == {"content": [{"type": "text", "text": "5"}], "structuredContent": {"total": 5}}
    painted = assert_good(service.client().post("/v1/tools/box/paint/call", json={}))
    assert painted["content"][2] == {"type": "hologram", "depth": 3}, "as the server had it"
    assert painted["signature"] == "toolbox"
    failed = assert_good(service.client().post("/v1/tools/box/fail/call", json={}))
    whose = {"waygraph/agent": "box"}
    assert failed == {"content": [{"type": "text", "text": "the door is locked"}], "isError": True, "_meta": whose}


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


def test_who_goes_away_ends_the_call_at_its_server_too(toolbox: Place) -> None:
    before = toolbox.notes.count("waits")
    body = b"{}"
    named = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with served(toolbox.registry, settings=Settings(explorer_calls=True)) as service:
        with service.connect() as connection:
            connection.sendall(f"POST /v1/tools/box/wait/call HTTP/1.1\r\n{named}".encode() + body)
            until(lambda: toolbox.notes.count("waits") > before, "the server has it")
        client = service.client()
        until(lambda: assert_good(client.get("/v1/calls"))["calls"], "it has ended")
        assert [call["outcome"] for call in assert_good(client.get("/v1/calls"))["calls"]] == ["cancelled"]


def test_a_call_needs_its_scope_and_is_recorded(guarded: Served) -> None:
    asked = {"arguments": {"a": 1, "b": 1}}
    assert_problem(guarded.client().post("/v1/tools/box/add/call", json=asked), 401, NotAuthenticated)
    assert_problem(guarded.caller("route", "read").post("/v1/tools/box/add/call", json=asked), 403, NotAllowed)
    assert_good(guarded.caller("use", everything=True).post("/v1/tools/box/add/call", json=asked))
    calls = [line for line in map(json.loads, guarded.log.splitlines()) if line.get("action") == "call"]
    assert [(call["target"], call["outcome"]) for call in calls] == [("box/add", "refused"), ("box/add", "ok")]
    assert calls[1]["parameters"] == ["a", "b"]


def test_a_person_agrees_to_one_version_of_a_tool_where_the_operator_lets_people_call(
    toolbox: Place, policy: str
) -> None:
    before = toolbox.notes.count("erased")
    with served(toolbox.registry, settings=Settings(policy_file=policy)) as careful:
        version = careful.registry.tool("box/erase").content_hash
        for call in ({}, {"consent": version}):
            told = assert_problem(careful.client().post("/v1/tools/box/erase/call", json=call), 403, "needs-consent")
            assert "WAYGRAPH_POLICY_FILE" in told["detail"]
    with served(toolbox.registry, settings=Settings(policy_file=policy, explorer_calls=True)) as lenient:
        for other in ("", "0" * 64):
            call = {"consent": other}
            assert_problem(lenient.client().post("/v1/tools/box/erase/call", json=call), 403, "needs-consent")
        assert toolbox.notes.count("erased") == before
        assert_good(lenient.client().post("/v1/tools/box/erase/call", json={"consent": version}))
    assert toolbox.notes.count("erased") == before + 1


def test_a_program_cannot_agree_in_place_of_a_person(toolbox: Place, policy: str, tmp_path: Path) -> None:
    """Where it is asked who calls, only a session of the explorer can."""
    settings = Settings(policy_file=policy, explorer_calls=True)
    before = toolbox.notes.count("erased")
    with served(toolbox.registry, auth=True, folder=tmp_path, settings=settings) as careful:
        key = careful.key(everything=True)
        call = {"consent": careful.registry.tool("box/erase").content_hash}
        for site in ("none", "same-origin"):
            program = careful.client(key, **{"Sec-Fetch-Site": site})
            refused = program.post("/v1/tools/box/erase/call", json=call)
            assert_problem(refused, 403, "needs-consent")
        assert toolbox.notes.count("erased") == before
        person = careful.client()
        mark = {"X-CSRF-Token": assert_good(person.post("/explore/session", json={"secret": key}))["csrf"]}
        assert_good(person.post("/v1/tools/box/erase/call", json=call, headers=mark))
    assert toolbox.notes.count("erased") == before + 1


def test_calls_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all callers together, whatever their results are; the oldest go."""
    monkeypatch.setattr(recorded_calls, "MOST_OF_ALL", 5)
    calls = RecordedCalls()
    for number in range(30):
        caller = Caller(id=f"key:{number}", scopes=frozenset(), principal=None)
        with calls.record(caller, f"box/{number}", {}) as call:
            note_result(call, {"content": "\N{ANCHOR}" * 40_000})
    kept = calls.list("")
    assert [call.tool for call in kept] == [f"box/{number}" for number in range(29, 24, -1)]
    assert all(len(call.result) == recorded_calls.MOST_CHARS for call in kept)


def test_of_a_problem_little_is_kept() -> None:
    calls, words = RecordedCalls(), "word " * 4_000
    with pytest.raises(InvalidQuery), calls.record(LOCAL, "box/add", {}):
        raise InvalidQuery(words)
    [call] = calls.list("")
    assert call.problem
    assert (len(call.problem["detail"]), call.problem["status"]) == (2_000, 422)


def test_the_last_calls_are_kept_without_secrets_and_only_where_people_call(toolbox: Place, service: Served) -> None:
    with served(toolbox.registry, settings=Settings(explorer_calls=True)) as kept:
        client = kept.client()
        arguments = {"words": "Authorization: Bearer abcdef0123456789", "token": "hunter2-hunter2"}
        client.post("/v1/tools/box__fail/call", json={"arguments": arguments})
        client.post("/v1/tools/box/add/call", json={"arguments": {"a": 1}})
        client.post("/v1/tools/box/wait/call", json={"timeout_s": 0.3})
        client.post("/v1/tools/box/none/call", json={})
        calls = assert_good(client.get("/v1/calls"))["calls"]
        assert [(call["tool"], call["outcome"]) for call in calls] == [
            ("box/wait", "timed_out"),
            ("box/add", "refused"),
            ("box/fail", "tool_error"),
        ]
        assert calls[1]["problem"]["code"] == "invalid-arguments"
        assert json.loads(calls[2]["result"])["isError"]
        assert set(json.loads(calls[2]["arguments"])) == {"words", "token"}
        assert "hunter2" not in str(calls)
        assert "abcdef0123456789" not in str(calls)
        assert [call["id"] for call in client.get("/v1/calls", params={"tool": "box/add"}).json()["calls"]] == [
            calls[1]["id"]
        ]
    service.client().post("/v1/tools/box/fail/call", json={})
    assert assert_good(service.client().get("/v1/calls")) == {"calls": []}


def test_callers_see_their_own_calls_and_an_admin_those_of_all(toolbox: Place, tmp_path: Path) -> None:
    with served(toolbox.registry, auth=True, folder=tmp_path, settings=Settings(explorer_calls=True)) as kept:
        ann, bob = kept.caller("use"), kept.caller("use", everything=True)
        admin = kept.caller("use", "admin", everything=True)
        for caller, count in ((ann, 52), (bob, 1)):
            for number in range(count):
                assert_good(caller.post("/v1/tools/box/add/call", json={"arguments": {"a": number, "b": 0}}))
        calls = {name: assert_good(each.get("/v1/calls"))["calls"] for name, each in (("ann", ann), ("bob", bob))}
        assert len(calls["ann"]) == 50
        assert json.loads(calls["ann"][0]["arguments"]) == {"a": 51, "b": 0}
        assert len(calls["bob"]) == 1
        assert len(assert_good(admin.get("/v1/calls", params={"limit": 100}))["calls"]) == 51
        kept.registry.operator.set("box", visible_to=["nobody"])
        assert assert_good(ann.get("/v1/calls")) == {"calls": []}
        kept.registry.operator.set("box", everyone=True)
