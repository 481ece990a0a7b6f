"""Threads of one process that write at once: each has its own outcome, and one publication serves those that wait."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.programs import opened, rival
from tests.unit.test_live_graph import comes_true
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.graph_agreement import is_behind
from waygraph.registry.index.local.index_upkeep import Publication
from waygraph.registry.model.errors import NotPublished, RegistryClosed, StorageFailed
from waygraph.registry.storage import live_graph
from waygraph.registry.storage.live_graph import LiveGraph
from waygraph.registry.storage.local_registry import LocalRegistry

SOURCES = ("alpha", "beta", "gamma", "delta", "epsilon")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a group ends for want of writes alone."""
    monkeypatch.setattr(live_graph, "LONGEST_S", 600.0)


@pytest.fixture(params=["file", "memory"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalRegistry]:
    """At revision 1."""
    with opened(tmp_path / "r.grafeo" if request.param == "file" else ":memory:") as opened_registry:
        sync(opened_registry, rival("first", 1))
        yield opened_registry


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[LocalRegistry]:
    """At revision 1."""
    with opened(tmp_path / "r.grafeo") as opened_registry:
        sync(opened_registry, rival("first", 1))
        yield opened_registry


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Publication]:
    """What was published, one after the other."""
    publications: list[Publication] = []
    real = Publication.publish

    def noting(publication: Publication) -> None:
        publications.append(publication)
        real(publication)

    monkeypatch.setattr(Publication, "publish", noting)
    return publications


def graph_of(registry: LocalRegistry) -> LiveGraph:
    return registry.store._live_graph()  # type: ignore[attr-defined, no-any-return]


@contextmanager
def all_at_once(registry: LocalRegistry, *works: Callable[[], object]) -> Iterator[list[Future[Any]]]:
    """Threads that all wait for their turn, which is taken until the block ends; then each has had it."""
    with ThreadPoolExecutor(len(works)) as pool, suppress(NotPublished), registry.writing():
        futures = [pool.submit(work) for work in works]
        assert comes_true(lambda: graph_of(registry)._waiting == len(works))
        yield futures


@contextmanager
def one_more_waits(graph: LiveGraph) -> Iterator[None]:
    """While the block lasts a thread waits that does not come to its turn; then it gave up."""
    with graph._turns:
        graph._waiting += 1
    try:
        yield
    finally:
        with graph._turns:
            graph._waiting -= 1
            graph._turns.notify_all()


def write_of(registry: LocalRegistry, source: str) -> Callable[[], int]:
    """A write that returns its revision, once its thread has seen its own agents."""

    def work() -> int:
        revision = sync(registry, rival(source, 1)).revision
        assert len([agent for agent in registry.agents() if agent.id.startswith(source)]) == 4
        return revision

    return work


@contextmanager
def committed(registry: LocalRegistry) -> Iterator[Future[int]]:
    """A write of source alpha that is committed, and waits for another one to publish it."""
    graph = graph_of(registry)
    with ThreadPoolExecutor(1) as pool, one_more_waits(graph):
        future = pool.submit(write_of(registry, "alpha"))
        assert comes_true(lambda: graph._group is not None and not graph._is_taken)
        assert not future.done()
        yield future


def test_writes_that_wait_are_published_together(registry: LocalRegistry, published: list[Publication]) -> None:
    with all_at_once(registry, *(write_of(registry, source) for source in SOURCES)) as futures:
        pass
    assert sorted(future.result() for future in futures) == [2, 3, 4, 5, 6]
    assert len(published) == 1
    assert registry.status().state.revision == 6


def test_a_group_has_a_greatest_size(
    registry: LocalRegistry, published: list[Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_graph, "MOST_WRITES", 2)
    with all_at_once(registry, *(write_of(registry, source) for source in SOURCES)) as futures:
        pass
    assert sorted(future.result() for future in futures) == [2, 3, 4, 5, 6]
    assert len(published) == 3


def test_an_old_group_is_published_at_once(
    registry: LocalRegistry, published: list[Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_graph, "LONGEST_S", 0.0)
    with all_at_once(registry, *(write_of(registry, source) for source in SOURCES)):
        pass
    assert len(published) == 6


def test_an_error_in_one_write_harms_no_other(registry: LocalRegistry) -> None:
    """Nor is anything of it kept."""

    def fail() -> None:
        with registry.writing() as session:
            session.write(lambda _: 1 / 0)  # type: ignore[arg-type]

    with all_at_once(registry, write_of(registry, "alpha"), fail, write_of(registry, "beta")) as futures:
        pass
    assert sorted((futures[0].result(), futures[2].result())) == [2, 3]
    assert isinstance(futures[1].exception(), ZeroDivisionError)
    assert registry.status().state.revision == 3


def test_all_writes_of_a_group_learn_that_it_was_not_published(
    registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they wrote is kept, and shown with the next write."""

    def fail(_: Publication) -> None:
        raise StorageFailed("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Publication, "publish", fail)
        with all_at_once(registry, write_of(registry, "alpha"), write_of(registry, "beta")) as futures:
            pass
    for future in futures:
        assert isinstance(future.exception(), NotPublished)
        assert "no room" in str(future.exception())
    assert sync(registry, rival("gamma", 1)).revision == 4
    assert {agent.id[:-1] for agent in registry.agents()} == {"first", "alpha", "beta", "gamma"}


def test_who_waits_for_a_publication_makes_it_if_nobody_else_does(registry: LocalRegistry) -> None:
    """As where the thread that was to follow waited for its turn in vain."""
    with committed(registry) as future:
        pass
    assert future.result(30) == 2


def test_a_group_is_published_before_a_look_at_the_index(
    registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with committed(registry) as future:
        monkeypatch.setattr(live_graph, "LONGEST_S", 0.0)  # the look itself waits for nobody
        with registry.store.writing(alone=True):
            assert registry.status().state.revision == 2
    assert future.result(30) == 2


def test_closing_publishes_what_waits(in_file: LocalRegistry, tmp_path: Path) -> None:
    with committed(in_file) as future:
        in_file.close()
    error = future.exception(30)  # the write is done; to look at it, its thread comes too late
    assert isinstance(error, RegistryClosed)
    assert not is_behind(tmp_path / "r.grafeo.index")
    with opened(tmp_path / "r.grafeo") as again:
        assert again.status().state.revision == 2


def test_who_waits_while_it_is_closed_does_not_open_it_anew(in_file: LocalRegistry) -> None:
    graph = graph_of(in_file)
    in_file.close()
    with pytest.raises(RegistryClosed), graph.turn(0):
        pass


def test_another_process_gets_the_graph_after_what_waits_is_published(in_file: LocalRegistry, tmp_path: Path) -> None:
    with committed(in_file) as future:
        with child(programs.ingest_with_patience, tmp_path / "r.grafeo", 1, 30.0) as other:
            assert other.hear()[0] == 3
        assert future.result(30) == 2
