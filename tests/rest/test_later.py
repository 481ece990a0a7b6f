"""Manifests that are taken after the answer, and how many writes may wait."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service import (
    TIMEOUT_S,
    Served,
    agent,
    assert_careful,
    assert_good,
    assert_problem,
    ingest,
    manifest,
    served,
)
from tests.service import until as wait_until
from waygraph.api.rest.ingests import Ingests
from waygraph.api.rest.routes import admin
from waygraph.api.rest.service import LARGE_BYTES, MOST_LARGE, SMALL_WRITES
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.errors import MassRemoval, NotAllowed, NotAuthenticated, ServiceBusy, UnknownName

LATER = {"Prefer": "respond-async"}


def post(
    client: httpx2.Client, source: str, *agents: dict[str, Any], large: bool = False, later: bool = False
) -> httpx2.Response:
    """A large manifest is one by its blanks."""
    content = json.dumps(manifest(source, *agents)) + " " * LARGE_BYTES * large
    headers = {"Content-Type": "application/json", **(LATER if later else {})}
    return client.post("/v1/manifests", content=content, headers=headers)


def send(client: httpx2.Client, source: str, *agents: dict[str, Any], large: bool = False) -> dict[str, Any]:
    """The ingest that the service promises."""
    response = post(client, source, *agents, large=large, later=True)
    assert response.status_code == 202, response.text
    assert_careful(response)
    promised: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/ingests/{promised['id']}"
    assert response.headers["preference-applied"] == "respond-async"
    assert promised["state"] == "queued"
    return promised


def ended(client: httpx2.Client, ingest_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = assert_good(client.get(f"/v1/ingests/{ingest_id}"))
        return found if found["end_time"] else None

    found: dict[str, Any] = wait_until(look, "the end of the ingest")
    return found


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it lasts, manifests that have begun go no further; the event: one has begun."""
    read, begun, may_go = admin._manifests, threading.Event(), threading.Event()

    def read_when_told(*given: Any) -> Any:
        begun.set()
        assert may_go.wait(TIMEOUT_S)
        return read(*given)

    monkeypatch.setattr(admin, "_manifests", read_when_told)
    try:
        yield begun
    finally:
        may_go.set()


def test_a_manifest_is_taken_after_the_answer(blank: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client = blank.client()
    with held_up(monkeypatch) as begun:
        promised = send(client, "s", agent("a", "look"))
        assert begun.wait(TIMEOUT_S)
        running = assert_good(client.get(f"/v1/ingests/{promised['id']}"))
        assert running == {**promised, "state": "running", "start_time": running["start_time"]}
        assert promised["arrival_time"] <= running["start_time"]
    found = ended(client, promised["id"])
    assert (found["state"], found["source"], found["problem"]) == ("done", "s", None)
    [report] = found["reports"]
    assert (report["revision"], report["agents"]["created"]) == (1, ["a"])
    assert assert_good(client.get("/v1/agents/a"))["agent"]["id"] == "a"
    again = ingest(client, "s", agent("a", "look"))
    assert {**report, "agents": again["agents"], "tools": again["tools"], "seconds": 0} == {**again, "seconds": 0}


def test_what_stands_against_it_is_told_by_the_ingest(blank: Served) -> None:
    client = blank.client()
    ingest(client, "s", agent("a"), agent("b"), agent("c"))
    found = ended(client, send(client, "s", agent("a"))["id"])
    expected = assert_problem(client.post("/v1/manifests", json=manifest("s", agent("a"))), 409, MassRemoval)
    assert (found["state"], found["reports"]) == ("failed", [])
    assert {**found["problem"], "instance": ""} == {**expected, "instance": ""}


def test_a_fault_of_the_service_is_told_and_logged(blank: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(admin, "_manifests", fail)
    client = blank.client()
    found = ended(client, send(client, "s", agent("a"))["id"])
    assert (found["state"], found["problem"]["code"], found["problem"]["status"]) == ("failed", "internal-error", 500)
    assert "a secret" not in str(found)
    assert "ZeroDivisionError" in blank.log


def test_only_who_sent_it_and_an_admin_learn_of_it(guarded: Served) -> None:
    writer, other = guarded.caller("write"), guarded.caller("write", "read", everything=True)
    promised = send(writer, "s", agent("a"))
    assert ended(writer, promised["id"])["state"] == "done"
    path = f"/v1/ingests/{promised['id']}"
    for stranger in (other, guarded.caller("write", "admin", groups=("g",))):
        assert_problem(stranger.get(path), 404, UnknownName)
    assert_problem(other.get("/v1/ingests/none"), 404, UnknownName)
    assert_good(guarded.admin().get(path))
    refused = post(guarded.caller("read"), "s", agent("a"), later=True)
    assert_problem(refused, 403, NotAllowed)


def test_a_key_is_looked_at_again_when_its_turn_comes(guarded: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the audit it is refused as it would be at once."""
    lost = guarded.key("write")
    with held_up(monkeypatch) as begun:
        send(guarded.admin(), "first", agent("first"), large=True)
        assert begun.wait(TIMEOUT_S)
        promised = send(guarded.client(lost), "second", agent("second"), large=True)
        assert guarded.keys is not None
        held = guarded.keys.find(lost)
        assert held is not None
        guarded.keys.revoke(held.id)
    found = ended(guarded.admin(), promised["id"])
    assert (found["state"], found["problem"]["code"]) == ("failed", "not-authenticated")
    assert guarded.registry.sources()[0].name == "first"
    assert len(guarded.registry.sources()) == 1
    assert NotAuthenticated.__name__ in guarded.log


def test_small_writes_pass_large_ones_which_may_wait_in_number(blank: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client = blank.client()
    ingest(client, "s", agent("a", "look"))
    with held_up(monkeypatch) as begun:
        promised = [send(client, "first", agent("first"), large=True)]
        assert begun.wait(TIMEOUT_S)
        promised += [send(client, "first", agent("first"), large=True) for _ in range(MOST_LARGE)]
        over = post(client, "over", agent("over"), large=True, later=True)
        assert_problem(over, 503, ServiceBusy)
        assert_problem(post(client, "over", agent("over"), large=True), 503, ServiceBusy)
        assert assert_good(client.patch("/v1/agents/a", json={"pinned": True}))["pinned"] is True
        waiting = assert_good(client.get(f"/v1/ingests/{promised[-1]['id']}"))
        assert (waiting["state"], waiting["start_time"]) == ("queued", "")
    assert [ended(client, each["id"])["state"] for each in promised] == ["done"] * (MOST_LARGE + 1)
    assert_good(post(client, "over", agent("over"), large=True))


def test_a_write_that_cannot_begin_in_time_is_refused(blank: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads for small writes are held up; nothing is left of one more."""
    client = blank.client()
    ingest(client, "s", agent("a"))
    blank.service.lanes.write_lane(0).wait_s = 0.2
    with held_up(monkeypatch):
        promised = [send(client, f"s{number}", agent(f"b{number}")) for number in range(SMALL_WRITES)]
        wait_until(lambda: all(state(client, each["id"]) == "running" for each in promised), "all at work")
        refused = assert_problem(client.patch("/v1/agents/a", json={"pinned": True}), 503, ServiceBusy)
        assert refused["retryable"]
    assert [ended(client, each["id"])["state"] for each in promised] == ["done"] * SMALL_WRITES
    assert not assert_good(client.get("/v1/agents/a"))["agent"]["pinned"]


def state(client: httpx2.Client, ingest_id: str) -> object:
    return assert_good(client.get(f"/v1/ingests/{ingest_id}"))["state"]


def test_a_service_that_stops_fails_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as service:
        client = service.client()
        with held_up(monkeypatch) as begun:
            first = send(client, "first", agent("first"), large=True)
            assert begun.wait(TIMEOUT_S)
            waiting = send(client, "second", agent("second"), large=True)
            closing = threading.Thread(target=service.service.lanes.close)
            closing.start()
            ingests = service.service.ingests
            wait_until(lambda: ingests.find(waiting["id"], LOCAL)["end_time"], "the end of what waits")
        closing.join(TIMEOUT_S)
        found = ingests.find(waiting["id"], LOCAL)
        assert (found["problem"]["code"], found["reports"], found["start_time"]) == ("service-stopping", [], "")
        assert ingests.find(first["id"], LOCAL)["state"] == "done"
        assert [source.name for source in service.registry.sources()] == ["first"]
    assert "ServiceStopping" in service.log


def take(ingests: Ingests, work: Callable[[], dict[str, Any]]) -> str:
    from concurrent.futures import Future

    def submit(run: Callable[[], None]) -> Future[None]:
        run()
        future = Future[None]()
        future.set_result(None)
        return future

    return str(ingests.add(LOCAL, "s", submit, work, lambda: None)["id"])


def test_the_workers_of_a_service_know_each_others_ingests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Ingests(tmp_path), Ingests(tmp_path)
    ingest_id = take(first, lambda: {"reports": [], "problem": None})
    assert second.find(ingest_id, LOCAL) == first.find(ingest_id, LOCAL)
    monkeypatch.setattr("waygraph.api.rest.ingests.MOST_ENDED", 2)
    kept = [take(first, lambda: {"reports": [], "problem": None}) for _ in range(3)][1:]
    assert {path.name for path in tmp_path.iterdir()} == {f"ingest-{each}.json" for each in kept}
    with pytest.raises(UnknownName):
        second.find(ingest_id, LOCAL)


def test_an_ingest_of_a_worker_that_died_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Ingests(tmp_path), Ingests(tmp_path)
    seen: list[dict[str, Any]] = []

    def work() -> dict[str, Any]:
        [path] = tmp_path.glob("*.json")
        ingest_id = path.stem.removeprefix("ingest-")
        seen.append(second.find(ingest_id, LOCAL))
        with monkeypatch.context() as patch:
            patch.setattr("waygraph.api.rest.ingests._is_alive", lambda _: False)
            seen.append(second.find(ingest_id, LOCAL))
        return {"reports": [], "problem": None}

    take(first, work)
    assert [each["state"] for each in seen] == ["running", "failed"]
    assert seen[1]["problem"]["code"] == "worker-ended"
