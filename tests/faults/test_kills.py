"""kill -9 in the middle of ingests: nothing acknowledged is lost, nothing half-written is seen."""

import random
import time
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.fleet import number_in
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision

TORTURE = pytest.mark.slow


def settle(path: Path, acknowledged: int) -> int:
    """The revision after a kill: the last acknowledged one, or the one that was being committed."""
    revision = sound_revision(path)
    assert revision in (acknowledged, acknowledged + 1)
    return revision


def started(path: Path) -> int:
    with child(programs.ingest_on, path, 1, 1) as first:
        assert first.said() == [1]
    return sound_revision(path)


@pytest.mark.parametrize("rounds", [12, pytest.param(150, marks=TORTURE)])
def test_a_kill_at_any_moment_loses_nothing_acknowledged(tmp_path: Path, rounds: int) -> None:
    """After each kill the registry opens, is whole at an acknowledged or committed revision, and is written again."""
    path, chance, revision = tmp_path / "r.grafeo", random.Random(7), 0  # noqa: S311
    for _ in range(rounds):
        with child(programs.ingest_on, path, revision + 1, revision + 1000) as writer:
            first = writer.hear()
            assert first == revision + 1
            time.sleep(chance.uniform(0, 0.4))
            writer.kill()
            acknowledged = max([first, *writer.said()])
        revision = settle(path, acknowledged)


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=TORTURE)])
def test_a_kill_among_threads_that_write_loses_nothing_acknowledged(tmp_path: Path, rounds: int) -> None:
    """Of each thread's source the last acknowledged state is there, whole, or the one that was being written."""
    path, chance = tmp_path / "r.grafeo", random.Random(17)  # noqa: S311
    numbers = dict.fromkeys("abcd", 0)
    for _ in range(rounds):
        first = max(numbers.values()) + 1
        with child(programs.sync_in_threads, path, tuple(numbers), first) as writer:
            acknowledged = dict([writer.hear()])
            time.sleep(chance.uniform(0, 0.4))
            writer.kill()
            acknowledged |= dict(writer.said())
        with opened(path) as registry:
            agents = registry.agents()
        for source, before in numbers.items():
            found = [number_in(agent.description) for agent in agents if agent.id.startswith(source)]
            [number] = set(found) or {0}
            last = acknowledged.get(source)
            assert number in ((last, last + 1) if last else (before, first))
            assert len(found) == (3 + number % 4 if number else 0)
            numbers[source] = number


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=TORTURE)])
def test_a_kill_in_the_first_ingest_leaves_a_place_to_start_anew(tmp_path: Path, rounds: int) -> None:
    """However early the first writer dies, the next one makes the registry."""
    chance = random.Random(11)  # noqa: S311
    for number in range(rounds):
        path = tmp_path / f"{number}.grafeo"
        with child(programs.ingest_on, path, 1, 1) as writer:
            time.sleep(chance.uniform(0, 0.15))
            writer.kill()
        with child(programs.ingest_once, path, 1) as writer:
            assert writer.hear() == ("done", "1")
        assert sound_revision(path) == 1


@pytest.mark.parametrize("rounds", [5, pytest.param(60, marks=TORTURE)])
def test_a_kill_on_the_commit_keeps_all_or_nothing(tmp_path: Path, rounds: int) -> None:
    """A writer killed while the engine commits leaves the revision before or after, whole."""
    path, chance = tmp_path / "r.grafeo", random.Random(13)  # noqa: S311
    revision = started(path)
    for _ in range(rounds):
        with child(programs.ingest_and_tell_of_the_commit, path, revision + 1) as writer:
            assert writer.hear() == "committing"
            time.sleep(chance.uniform(0, 0.004))
            writer.kill()
            acknowledged = max([revision, *writer.said()])
        revision = settle(path, acknowledged)


@pytest.mark.parametrize(
    ("program", "word"),
    [
        (programs.ingest_and_stop_before_publishing, "publishing"),
        (programs.ingest_and_stop_before_pointing, "pointing"),
    ],
)
def test_what_a_killed_writer_committed_is_published_by_whoever_opens_next(
    tmp_path: Path, program: object, word: str
) -> None:
    """A writer killed between the graph's commit and the index's publication loses nothing: a reader finishes it."""
    path = tmp_path / "r.grafeo"
    revision = started(path)
    for _ in range(3):
        with child(program, path, revision + 1) as writer:  # type: ignore[arg-type]
            assert writer.hear() == word
            writer.kill()
            writer.end()
        assert sound_revision(path) == revision + 1
        revision += 1
    assert not list((tmp_path / "r.grafeo.index").glob("building-*"))
    assert len(list((tmp_path / "r.grafeo.index").glob("index-*.sqlite"))) == 1


def test_the_next_ingest_also_finishes_what_a_killed_writer_began(tmp_path: Path) -> None:
    """No reader need come between: an ingest after such a kill ends at the revision after both."""
    path = tmp_path / "r.grafeo"
    revision = started(path)
    with child(programs.ingest_and_stop_before_publishing, path, revision + 1) as writer:
        assert writer.hear() == "publishing"
        writer.kill()
        writer.end()
    with child(programs.ingest_once, path, revision + 2) as writer:
        assert writer.hear() == ("done", str(revision + 2))
    assert sound_revision(path) == revision + 2
