"""How many writes of a service may wait, and what passes them."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.service import TIMEOUT_S, Served, agent, assert_good, assert_problem, ingest, manifest, until
from waygraph.api.rest.routes import admin
from waygraph.api.rest.service import LARGE_BYTES, MOST_LARGE, SMALL_WRITES
from waygraph.registry.model.errors import ServiceBusy


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MOST_LARGE + SMALL_WRITES) as pool:
        yield pool


def post(client: httpx2.Client, source: str, *, large: bool = False) -> httpx2.Response:
    """A large manifest is one by its blanks."""
    content = json.dumps(manifest(source, agent(source))) + " " * LARGE_BYTES * large
    return client.post("/v1/manifests", content=content, headers={"Content-Type": "application/json"})


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """While it lasts, manifests that have begun go no further; an entry for each that has."""
    read, begun, may_go = admin._manifests, list[object](), threading.Event()

    def read_when_told(*given: Any) -> Any:
        begun.append(given)
        assert may_go.wait(TIMEOUT_S)
        return read(*given)

    monkeypatch.setattr(admin, "_manifests", read_when_told)
    try:
        yield begun
    finally:
        may_go.set()


def test_small_writes_pass_large_ones_which_may_wait_in_number(
    blank: Served, senders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, lane = blank.client(), blank.service.lanes.write_lane(LARGE_BYTES + 1)
    ingest(client, "s", agent("a", "look"))
    answers: list[Future[httpx2.Response]] = []
    with held_up(monkeypatch) as begun:
        answers.append(senders.submit(post, client, "first", large=True))
        until(lambda: begun, "the first at work")
        answers += [senders.submit(post, client, "first", large=True) for _ in range(MOST_LARGE)]
        until(lambda: lane._pool._work_queue.qsize() == MOST_LARGE, "as many wait as may")
        assert_problem(post(client, "over", large=True), 503, ServiceBusy)
        assert assert_good(client.patch("/v1/agents/a", json={"pinned": True}))["pinned"] is True
    for answer in answers:
        assert_good(answer.result(TIMEOUT_S))
    assert_good(post(client, "over", large=True))


def test_a_write_that_cannot_begin_in_time_is_refused(
    blank: Served, senders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads for small writes are held up; nothing is left of one more."""
    client = blank.client()
    ingest(client, "s", agent("a"))
    blank.service.lanes.write_lane(0).wait_s = 0.2
    with held_up(monkeypatch) as begun:
        answers = [senders.submit(post, client, f"s{number}") for number in range(SMALL_WRITES)]
        until(lambda: len(begun) == SMALL_WRITES, "all at work")
        refused = assert_problem(client.patch("/v1/agents/a", json={"pinned": True}), 503, ServiceBusy)
        assert refused["retryable"]
    for answer in answers:
        assert_good(answer.result(TIMEOUT_S))
    assert not assert_good(client.get("/v1/agents/a"))["agent"]["pinned"]
