"""How many typed statements are at work at a time: counted by the workers themselves, never by a clock."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Condition
from typing import Any

import pytest

from tests.bombs import ENDLESS
from tests.contract.test_lookup import entry
from waygraph import Settings
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.user_cypher import sandbox
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherBusy, CypherFailed, CypherLimit, CypherRefused, InvalidSetting
from waygraph.registry.registry import Registry

HASTY = Settings(cypher_workers=2, cypher_wait_s=0.0, cypher_timeout_s=120.0)
PATIENT = Settings(cypher_workers=2, cypher_wait_s=120.0, cypher_timeout_s=120.0)
WAITS_S = 60.0


class Workers:
    """Sees every worker that is started; one that was waited for is at work no more."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start, self._changed = start, Condition()
        self.seen: list[subprocess.Popen[bytes]] = []
        self.most_at_once = 0

    def start(self) -> subprocess.Popen[bytes]:
        with self._changed:
            self.seen.append(self._start())
            self.most_at_once = max(self.most_at_once, len(self.at_work()))
            self._changed.notify_all()
            return self.seen[-1]

    def at_work(self) -> list[subprocess.Popen[bytes]]:
        return [worker for worker in self.seen if worker.returncode is None]

    def await_started(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= number, WAITS_S)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    seen = Workers(sandbox._start)
    monkeypatch.setattr(sandbox, "_start", seen.start)
    return seen


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Callable[[Settings], Registry]]:
    """Opens the same registry with other settings."""
    path, opened = tmp_path / "r.grafeo", list[Registry]()

    def open_with(settings: Settings) -> Registry:
        opened.append(Registry.open(path, embedder="none", settings=settings, environ={}))
        return opened[-1]

    sync(open_with(Settings()), Manifest(source="s", entries=(entry("a", tuple("tuvwxyz")),)))
    yield open_with
    for registry in opened:
        registry.close()


@pytest.fixture
def pool(workers: Workers) -> Iterator[ThreadPoolExecutor]:
    """Threads that ask; statements that are still at work at the end are ended."""
    with ThreadPoolExecutor(8) as threads:
        yield threads
        for worker in workers.at_work():
            os.killpg(worker.pid, signal.SIGKILL)


def test_one_statement_too_many_is_told_to_come_again(
    at: Callable[[Settings], Registry], workers: Workers, pool: ThreadPoolExecutor
) -> None:
    """While as many as are allowed are at work, the next one is refused, may be tried again, and starts no worker."""
    registry = at(HASTY)
    asked = [pool.submit(registry.operator.cypher, ENDLESS) for _ in range(2)]
    workers.await_started(2)
    with pytest.raises(CypherBusy, match="allowed at a time, 2") as caught:
        registry.operator.cypher("RETURN 1")
    assert caught.value.retryable
    assert len(workers.seen) == 2
    kill_one(workers, asked)
    assert registry.operator.cypher("RETURN 1").rows == ((1,),)


def kill_one(workers: Workers, asked: list[Future[CypherResult]]) -> None:
    """As the kernel does where memory runs out; returns when the asker was told."""
    os.killpg(workers.at_work()[0].pid, signal.SIGKILL)
    assert isinstance(next(ended(asked)), CypherLimit)


def ended(asked: list[Future[CypherResult]]) -> Iterator[BaseException | None]:
    return (future.exception() for future in as_completed(asked, timeout=WAITS_S))


def test_one_that_waits_gets_the_place_that_comes_free(
    at: Callable[[Settings], Registry], workers: Workers, pool: ThreadPoolExecutor
) -> None:
    """A statement that found no place runs as soon as another one has ended."""
    registry = at(PATIENT)
    asked = [pool.submit(registry.operator.cypher, ENDLESS) for _ in range(2)]
    workers.await_started(2)
    waiting = pool.submit(registry.operator.cypher, "RETURN 7")
    kill_one(workers, asked)
    assert waiting.result(WAITS_S).rows == ((7,),)
    assert workers.most_at_once == 2


def test_never_more_than_allowed_are_at_work(
    at: Callable[[Settings], Registry], workers: Workers, pool: ThreadPoolExecutor
) -> None:
    """Of twenty statements that eight threads ask all are answered, two at a time."""
    registry = at(PATIENT)
    answers = list(pool.map(registry.operator.cypher, [f"RETURN {number}" for number in range(20)]))
    assert [answer.rows[0][0] for answer in answers] == list(range(20))
    assert (len(workers.seen), workers.most_at_once) == (20, 2)


def test_a_refused_statement_needs_no_place(
    at: Callable[[Settings], Registry], workers: Workers, pool: ThreadPoolExecutor
) -> None:
    """What its words refuse is refused at once, however busy the registry is."""
    registry = at(HASTY)
    for _ in range(2):
        pool.submit(registry.operator.cypher, ENDLESS)
    workers.await_started(2)
    with pytest.raises(CypherRefused):
        registry.operator.cypher("MATCH (n) DELETE n")


@pytest.mark.parametrize(
    ("statement", "error", "timeout_s"),
    [
        (ENDLESS, CypherLimit, 0.5),
        ("RETURN range(0, 1000000000000000000)", CypherLimit, 60.0),
        ("RETURN sise('x')", CypherFailed, 60.0),
        ("MATCH (n RETURN n", CypherFailed, 60.0),
    ],
)
def test_however_a_statement_ends_its_place_is_given_back(
    at: Callable[[Settings], Registry], workers: Workers, statement: str, error: type[Exception], timeout_s: float
) -> None:
    """Out of time, out of memory, not understood: with one place and no wait the next statement has its turn."""
    registry = at(Settings(cypher_workers=1, cypher_wait_s=0.0, cypher_timeout_s=timeout_s))
    for _ in range(3):
        with pytest.raises(error):
            registry.operator.cypher(statement)
    assert (len(workers.seen), workers.most_at_once) == (3, 1)


def test_a_worker_that_cannot_start_gives_its_place_back(
    at: Callable[[Settings], Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the operating system does not start takes no place for good, and is an error like any other."""
    registry = at(Settings(cypher_workers=1, cypher_wait_s=0.0))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/program")
        for _ in range(2):
            with pytest.raises(CypherFailed, match="could not start: No such file"):
                registry.operator.cypher("RETURN 1")
    assert registry.operator.cypher("RETURN 1").rows == ((1,),)


def test_each_registry_has_places_of_its_own(
    at: Callable[[Settings], Registry], workers: Workers, pool: ThreadPoolExecutor
) -> None:
    busy, idle = at(HASTY), at(HASTY)
    for _ in range(2):
        pool.submit(busy.operator.cypher, ENDLESS)
    workers.await_started(2)
    assert idle.operator.cypher("RETURN 1").rows == ((1,),)


@pytest.mark.parametrize(
    "given", [{"cypher_workers": 0}, {"cypher_workers": -1}, {"cypher_wait_s": -1.0}, {"cypher_wait_s": float("nan")}]
)
@pytest.mark.parametrize("location", [":memory:", "neo4j://localhost"])
def test_a_setting_out_of_range_is_told_at_once(given: dict[str, Any], location: str) -> None:
    """Before anything is opened or asked; the message names the variable."""
    with pytest.raises(InvalidSetting, match=r"WAYGRAPH_CYPHER_(WORKERS|WAIT_S)"):
        Registry.open(location, settings=Settings(**given), environ={})
