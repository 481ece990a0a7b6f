"""Work on a second thread while a model works: the same answers, errors told, and nobody waits for a busy one."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.cache import QueryCache
from waygraph.registry.model import process as module
from waygraph.registry.model.nouns import Route
from waygraph.registry.model.process import meanwhile
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

TEXTS = ("book a table for four", "create an issue in the repository", "what does the euro cost in yen?", "zzz qqq")


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 2)


def test_work_runs_on_another_thread_and_its_result_comes() -> None:
    assert meanwhile(threading.get_ident)() != threading.get_ident()


def test_a_busy_thread_leaves_the_work_to_the_one_that_asks() -> None:
    go, started = threading.Event(), threading.Event()

    def long() -> str:
        started.set()
        assert go.wait(60)
        return "long"

    first = meanwhile(long)
    assert started.wait(60)
    done: list[int] = []
    second = meanwhile(lambda: done.append(threading.get_ident()))
    assert done == []
    second()
    assert done == [threading.get_ident()]
    go.set()
    assert first() == "long"
    assert meanwhile(threading.get_ident)() != threading.get_ident()


def test_one_processor_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "processors", lambda: 1)
    assert meanwhile(threading.get_ident)() == threading.get_ident()


def test_what_the_work_raises_is_raised_where_its_result_is_asked_for() -> None:
    def fails() -> None:
        raise ValueError("of the work")

    result = meanwhile(fails)
    with pytest.raises(ValueError, match="of the work"):
        result()
    assert meanwhile(lambda: "free again")() == "free again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_gets_a_thread_of_its_own() -> None:
    assert meanwhile(lambda: "parent")() == "parent"
    child = os.fork()
    if not child:
        os._exit(0 if meanwhile(lambda: "child")() == "child" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_cannot_be_had_costs_the_speed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done by who asks, once; the next one starts a thread again."""
    module._beside.cache_clear()
    starts, done = threading.Thread.start, list[str]()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def work() -> str:
        done.append(threading.current_thread().name)
        return "done"

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        assert meanwhile(work)() == "done"
    assert threading.Thread.start is starts
    assert [meanwhile(work)() for _ in range(3)] == ["done"] * 3
    assert done == [threading.current_thread().name, *["meanwhile_0"] * 3]


def test_a_query_that_is_embedded_is_answered_as_one_whose_vector_is_at_hand(catalog: Path) -> None:
    with Registry.open(":memory:", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings()):
            sync(registry, manifest)
        ahead_of = [registry.route(text) for text in TEXTS]
        at_hand = [registry.route(text) for text in TEXTS]
        assert told(ahead_of) == told(at_hand)
        assert any(
            vote.leg == "capability_text" for route in ahead_of for match in route.matches for vote in match.votes
        )
        tools = [[registry.find_tools(text) for text in (f"{text}?", f"{text}?")] for text in TEXTS]
        assert [first.matches for first, _ in tools] == [second.matches for _, second in tools]


def test_an_embedder_that_fails_is_told_and_the_next_query_works(
    catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Registry.open(":memory:", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings()):
            sync(registry, manifest)
        with monkeypatch.context() as broken:
            broken.setattr(QueryCache, "vector", fails_to_embed)
            with pytest.raises(ConnectionError, match="no answer"):
                registry.route(TEXTS[0])
        assert registry.route(TEXTS[0]).matches


def fails_to_embed(self: QueryCache, text: str) -> None:
    raise ConnectionError("no answer")


def told(routes: Sequence[Route]) -> list[object]:
    return [(route.matches, route.confidence, route.reason) for route in routes]
