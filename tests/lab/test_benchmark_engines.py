"""The comparison of graph engines: how ends are judged, and real rounds on Grafeo."""

from pathlib import Path

import pytest

from benchmarks.engines.benchmark import tables_of
from benchmarks.engines.children import Ended, in_child
from benchmarks.engines.contenders import FILE
from benchmarks.engines.contents import CHANGING_TOOLS, Contents, change, contents, fill
from benchmarks.engines.faults import Damage, flip_bits, judge_flip, judge_kill, kill_writers
from benchmarks.engines.statements import common_statements
from waygraph.cypher import names
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.model.errors import RegistryUnusable

RIGHT = Contents(revision=3, numbers=frozenset({3}), sound=True, texts="t", vectors="v")
OLDER = Contents(revision=2, numbers=frozenset({2}), sound=True, texts="u", vectors="v")
HALF = Contents(revision=3, numbers=frozenset({2, 3}), sound=True, texts="w", vectors="v")


def answered(seen: Contents) -> Ended:
    return Ended("answered", seen)


@pytest.mark.parametrize(
    ("seen", "acknowledged", "end"),
    [
        (answered(RIGHT), 3, "whole"),
        (answered(RIGHT), 2, "whole"),
        (answered(OLDER), 3, "lost"),
        (answered(HALF), 3, "half"),
        (Ended("refused", "it is damaged"), 3, "unreadable: refused it is damaged"),
    ],
)
def test_a_killed_writer_is_judged_by_what_it_acknowledged(seen: Ended, acknowledged: int, end: str) -> None:
    assert judge_kill(seen, acknowledged) == end


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        (answered(RIGHT), "harmless"),
        (answered(OLDER), "silent: commits gone"),
        (answered(HALF), "silent: texts"),
        (answered(Contents(3, frozenset({3}), sound=False, texts="x", vectors="v")), "told by content hashes"),
        (answered(Contents(3, frozenset({3}), sound=True, texts="t", vectors="x")), "silent: vectors"),
        (Ended("refused", "it is damaged"), "refused"),
        (Ended("died", -6), "died"),
    ],
)
def test_a_flipped_bit_is_judged_by_what_is_read(seen: Ended, end: str) -> None:
    assert judge_flip(seen, RIGHT) == end


def test_changes_are_counted_and_read_whole(tmp_path: Path) -> None:
    """Each change makes a revision, and rewrites every tool of the changing agent."""
    engine = GrafeoEngine.open(tmp_path / FILE)
    fill(engine, 20)
    before = contents(engine)
    change(engine, 1)
    change(engine, 2)
    after = contents(engine)
    engine.close()
    assert (before.revision, before.numbers, before.sound) == (0, frozenset(), True)
    assert (after.revision, after.numbers, after.sound) == (2, frozenset({2}), True)
    assert CHANGING_TOOLS == 10
    assert before.vectors != after.vectors


def test_killed_writers_of_grafeo_lose_nothing(tmp_path: Path) -> None:
    assert kill_writers("Grafeo", tmp_path, 3, 20) == {"whole": 3}


def test_every_flipped_bit_is_counted(tmp_path: Path) -> None:
    found = flip_bits("Grafeo", tmp_path, 3, 20, Damage.OF_LOG)
    assert found.total() == 3
    assert "harmless" not in found, "each bit of the log counts"


def test_a_child_that_dies_or_hangs_is_told_from_one_that_refuses(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    assert in_child(GrafeoEngine.open, tmp_path / FILE) == Ended(
        "refused", str(RegistryUnusable(tmp_path / FILE, "the file is empty. Remove it, or restore it from a copy."))
    )
    assert in_child(_die) == Ended("died", 3)
    assert in_child(_sleep, timeout_s=0.2).how == "hung"
    assert in_child(int, "x").how == "raised"


def _die() -> None:
    import os

    os._exit(3)


def _sleep() -> None:
    import time

    time.sleep(60)


def test_every_statement_but_those_of_neo4j_is_compared() -> None:
    assert {*names()} - {*common_statements()} == {name for name in names() if name.startswith("neo4j/")}


def test_the_table_has_a_column_for_each_engine() -> None:
    details = {
        "statements": 88,
        "differing": ["read/agents"],
        "faults": {"Grafeo": {"9 killed writers": {"whole": 9}}, "KGLite": {"9 killed writers": {"lost": 9}}},
        "hostile": {"Grafeo": {"a product": "runs on"}, "KGLite": {"a product": "is refused"}},
        "cost": {"500": {"Grafeo": {"open, s": 0.5}, "KGLite": {"open, s": 0.25}}},
    }
    assert tables_of(details).splitlines()[2:] == [
        "| statements of 88 with the same outcome | 87 | 87 |",
        "| 9 killed writers: lost | 0 | 9 |",
        "| 9 killed writers: whole | 9 | 0 |",
        "| a product | runs on | is refused |",
        "| 500 tools: open, s | 0.5 | 0.25 |",
    ]
