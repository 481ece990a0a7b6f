"""Threads and processes route while another process ingests: every answer is of one revision."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest, small
from tests.faults.processes import Child, child
from tests.faults.soundness import sound_revision
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import folder_of
from waygraph.registry.model.settings import DEFAULT_EMBEDDER


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def stopped(readers: list[Child]) -> tuple[int, set[int]]:
    """Ends the readers; how many answers they gave, and of which revisions. Fails if one answer was mixed."""
    answers, seen = 0, set()
    for reader in readers:
        reader.tell("stop")
        given, revisions, faults = reader.hear()
        assert faults == []
        answers += given
        seen |= set(revisions)
    return answers, seen


@pytest.mark.parametrize("ingests", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_no_answer_is_of_two_revisions(tmp_path: Path, stack: ExitStack, ingests: int) -> None:
    """8 threads and 2 other processes route on while a process ingests; each text is of the Route's own revision."""
    path = tmp_path / "r.grafeo"
    with programs.opened(path) as registry:
        sync(registry, manifest(1))
    readers = [stack.enter_context(child(programs.route_on, path, n, "none")) for n in (8, 1, 1)]
    for reader in readers:
        reader.hear()
    writer = stack.enter_context(child(programs.ingest_on, path, 2, ingests))
    assert writer.said() == list(range(2, ingests + 1))
    time.sleep(0.2)
    answers, seen = stopped(readers)
    assert answers > 5 * ingests
    assert len(seen) >= ingests // 3
    assert ingests in seen
    assert sound_revision(path) == ingests
    assert len(list(folder_of(path).glob("index-*.sqlite"))) == 1


def test_no_answer_is_of_two_revisions_with_the_real_model(tmp_path: Path, stack: ExitStack) -> None:
    path = tmp_path / "r.grafeo"
    with programs.opened(path, embedder=DEFAULT_EMBEDDER) as registry:
        sync(registry, small(1))
    readers = [stack.enter_context(child(programs.route_on, path, 2, DEFAULT_EMBEDDER)) for _ in range(2)]
    for reader in readers:
        reader.hear()
    with programs.opened(path, embedder=DEFAULT_EMBEDDER) as registry:
        for number in range(2, 6):
            assert sync(registry, small(number)).revision == number
    time.sleep(0.3)
    answers, seen = stopped(readers)
    assert answers > 20
    assert 5 in seen
