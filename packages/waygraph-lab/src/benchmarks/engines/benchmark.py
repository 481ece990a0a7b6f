"""Grafeo and KGLite behind the same contract: statements, killed writers, flipped bits, strangers' Cypher, and cost."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import Measure, Result
from benchmarks.world import World, scratch_folder
from waygraph_lab.evaluation.compare import markdown_table

NAME = "engines"
KILLS, FLIPS, QUICK_ROUNDS = 200, 250, 10
"""Flips: of the file, and as many of the log."""
FAULT_TOOLS = 300
ROUNDS, QUICK_SIZES = {5_000: 3, 20_000: 1}, {500: 1}
"""Tools → how often their cost is measured."""
NEEDED = "kglite is not installed: pip install -r packages/waygraph-lab/src/benchmarks/engines/requirements.txt"
NOTES = (
    "Both engines behind the contract of graph engines; no registry and no search index around them.",
    "Killed: a process that writes one change of ten tools after the other, at a random moment of its first 150 "
    f"ms, over {FAULT_TOOLS} tools; every 7th change is made to survive a power cut, every 25th is a checkpoint. Lost: "
    "less is there than was acknowledged; half: a change is not there whole.",
    "Flipped: one bit of the closed graph file, and of the log that a killed process left; then everything is read. "
    "`commits gone`: an older whole state without a word. Who was refused is followed by another process that reads.",
    "Strangers' Cypher: on a copy, in a process that may take 1 GiB of memory, ended after 4 s; KGLite with its own "
    "deadline of 1 s.",
    "Cost: each step in a process of its own, engines in turn; of 5,000 tools the median of three rounds. KGLite holds "
    "vectors as text of their float32 numbers; as lists of numbers it holds 64-bit ones.",
)


def run(world: World) -> Result:
    if find_spec("kglite") is None:
        return Result(name=NAME, skipped=NEEDED)
    from benchmarks.engines.contenders import CONTENDERS
    from benchmarks.engines.hostile import run_hostile
    from benchmarks.engines.statements import common_statements, differing_statements

    kills, flips = (QUICK_ROUNDS, QUICK_ROUNDS) if world.quick else (KILLS, FLIPS)
    details: dict[str, Any] = {"kills": kills, "flips": flips}
    with scratch_folder() as folder:
        details["statements"] = len(common_statements())
        details["differing"] = differing_statements(folder / "statements")
        details["faults"] = {name: _faults(name, folder / name, kills, flips) for name in CONTENDERS}
        _report("statements of strangers")
        details["hostile"] = {name: run_hostile(name, folder / name / "hostile") for name in CONTENDERS}
        sizes = QUICK_SIZES if world.quick else ROUNDS
        details["cost"] = {str(size): _cost(folder, size, rounds) for size, rounds in sizes.items()}
    return Result(name=NAME, measures=list(_measures(details)), notes=NOTES, details=details)


def tables_of(details: Mapping[str, Any]) -> str:
    """One row for what was tried, one column for an engine, in Markdown."""
    engines = list(details["faults"])
    rows = [(what, *(found.get(engine, 0) for engine in engines)) for what, found in _rows(details)]
    return markdown_table(("What", *engines), rows)


def _faults(name: str, folder: Path, kills: int, flips: int) -> dict[str, Counter[str]]:
    from benchmarks.engines.faults import Damage, flip_bits, kill_writers

    found = {}
    _report(f"{name}: killed writers")
    (folder / "kills").mkdir(parents=True)
    found[f"{kills} killed writers"] = kill_writers(name, folder / "kills", kills, FAULT_TOOLS)
    for damage in Damage:
        _report(f"{name}: flipped bits of {damage}")
        found[f"{flips} flipped bits of {damage}"] = flip_bits(name, folder / damage, flips, FAULT_TOOLS, damage)
    return found


def _cost(folder: Path, tools: int, rounds: int) -> dict[str, dict[str, float]]:
    """Engine → what was measured → the median of the rounds."""
    from benchmarks.engines.contenders import CONTENDERS
    from benchmarks.engines.speed import Figures, measure_speed

    measured: dict[str, list[Figures]] = {name: [] for name in CONTENDERS}
    for turn in range(rounds):
        for name in CONTENDERS:
            _report(f"{name}: {tools} tools, round {turn + 1}")
            measured[name].append(measure_speed(name, folder / f"{name}-{tools}-{turn}", tools))
    return {
        name: {what: median(each[what] for each in figures) for what in figures[0]}
        for name, figures in measured.items()
    }


def _rows(details: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """What was tried, and engine → what came of it."""
    engines = list(details["faults"])
    same = details["statements"] - len(details["differing"])
    yield f"statements of {details['statements']} with the same outcome", dict.fromkeys(engines, same)
    for kind in details["faults"][engines[0]]:
        counts = {name: details["faults"][name][kind] for name in engines}
        for end in sorted(set().union(*counts.values())):
            yield f"{kind}: {end}", {name: found.get(end, 0) for name, found in counts.items()}
    for statement in details["hostile"][engines[0]]:
        yield statement, {name: details["hostile"][name][statement] for name in engines}
    for size, costs in details["cost"].items():
        for what in costs[engines[0]]:
            yield f"{size} tools: {what}", {name: f"{costs[name][what]:.3g}" for name in engines}


def _measures(details: Mapping[str, Any]) -> Iterator[Measure]:
    """Each number of the table; how strangers' statements end stands in the details."""
    for what, found in _rows(details):
        for engine, value in found.items():
            if what not in details["hostile"][engine]:
                yield Measure(name=f"{engine}: {what}", value=float(str(value)))


def _report(what: str) -> None:
    print(f"{NAME}: {what}", file=sys.stderr)
