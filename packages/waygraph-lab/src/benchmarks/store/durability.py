"""kill -9 of processes that write, and flipped bits: what is lost, half written, or answered wrongly without a word."""

import json
import random
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from benchmarks.processes import plain_environ, python_module
from benchmarks.record import PROJECT, Measure, Result, Target
from benchmarks.store.children import run_waygraph
from benchmarks.store.fleet import BASE, base, differs
from benchmarks.store.words import SPEC, install_words
from benchmarks.world import World, scratch_folder

NAME = "durability"
ROUNDS, QUICK_ROUNDS, TOOLS, QUICK_TOOLS = 50, 4, 300, 40
SEED = 20_261_126
NONE = Target(bound="at_most", value=0)
MOST_S = 0.5
"""A random kill comes within so many seconds after the writer has opened the registry."""
MANY = 10_000
LOCKS = ("*.lock", "*.queue")
NOTES = (
    "Kills are SIGKILL of a process that ingests one document after the other: half at random moments, half before or "
    "after a call that changes files (of the system, SQLite or the engine), one after the other of an ingest's.",
    "Lost: an acknowledged document is not there, or the registry does not open. Half: the texts are not those of one "
    "document. Silent: an answer differs from that of a registry made anew of the same graph: ids, order, scores by "
    "more than 4e-6, votes, or anything listed.",
    "One bit is flipped at a random place of a file in a copy of the registry. Graph: the index is removed, so that "
    "all is read from the graph. Noticed: an error of Waygraph's. Foreign: another error, or the process died.",
)


def run(world: World) -> Result:
    rounds = world.rounds or (QUICK_ROUNDS if world.quick else ROUNDS)
    with scratch_folder() as folder:
        return measure(world, folder, rounds, QUICK_TOOLS if world.quick else TOOLS)


def measure(world: World, folder: Path, rounds: int, tools: int) -> Result:
    environ = plain_environ(world.environ) | {
        "PYTHONPATH": str(install_words(folder / "plugins")),
        "WAYGRAPH_EMBEDDER": SPEC,
        "WAYGRAPH_CACHE_DIR": str(folder / "cache"),
    }
    place = folder / "live" / "r.grafeo"
    place.parent.mkdir()
    catalog = folder / f"{BASE}.json"
    catalog.write_text(json.dumps(base(tools)), encoding="utf-8")
    run_waygraph(["--registry", str(place), "ingest", str(catalog)], environ)
    chance = random.Random(SEED)  # noqa: S311 - no secret
    with Reader(environ) as reader:
        kills = Kills(place, environ, reader, folder)
        kills.run(rounds, chance)
        flips = {
            "index": flip_bits(place, folder, reader, rounds, chance, of_index=True),
            "graph": flip_bits(place, folder, reader, rounds, chance, of_index=False),
        }
    measures = [Measure(name=f"{rounds} kills: {fault}", value=kills.faults[fault], target=NONE) for fault in FAULTS]
    for what, seen in flips.items():
        bad = {outcome: seen[outcome] for outcome in ("silent", "foreign")}
        name = f"{rounds} flipped bits of the {what}"
        measures += [Measure(name=f"{name}: {each}", value=count, target=NONE) for each, count in bad.items()]
        measures += [Measure(name=f"{name}: {each}", value=seen[each]) for each in ("noticed", "same")]
    return Result(
        name=NAME,
        embedder=SPEC,
        measures=measures,
        notes=NOTES,
        details={"kills_at": kills.at, "kills_told": kills.told, "flips": {k: dict(v) for k, v in flips.items()}},
    )


FAULTS = ("lost", "half", "silent")


class Reader:
    """The benchmark's end of `reader`, begun anew when a damaged file ended it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        command = python_module("benchmarks.store.reader")
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT, env=self._environ)

    def read(self, path: Path) -> dict[str, Any]:
        """What `read_all` gives; or `error` and `ours`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        if line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = self._process.wait()
        self._process = self._start()
        return {"error": f"the process ended with {status}", "ours": False}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()


@dataclass
class Kills:
    """Writers that are killed one after the other, and what each left behind."""

    place: Path
    environ: Mapping[str, str]
    reader: Reader
    folder: Path
    faults: Counter[str] = field(default_factory=Counter)
    at: Counter[str] = field(default_factory=Counter)
    """How many kills came where."""
    told: list[str] = field(default_factory=list)
    """Of each fault, where and what."""
    number: int = 0
    """Of the document that the registry holds."""

    def run(self, rounds: int, chance: random.Random) -> None:
        # Of the second ingest: the first one makes caches.
        for number in (1, 2):
            acknowledged, steps = self._write(step=-1, last=number)
            self.check("no kill", acknowledged)
        places = places_of(steps, rounds - rounds // 2, chance)
        for turn in range(rounds):
            step = places.pop() if turn % 2 == 0 else 0
            last = self.number + 1 if step else MANY
            acknowledged, said = self._write(step=step, last=last, after_s=chance.uniform(0, MOST_S))
            where = (said or ["the step did not come"])[-1] if step else "at a random moment"
            self.at[where] += 1
            self.check(where, acknowledged)

    def _write(self, *, step: int, last: int, after_s: float = MOST_S) -> tuple[int, list[str]]:
        """The last document that was acknowledged, and the steps that were named."""
        command = python_module("benchmarks.store.writer", str(self.place), *map(str, (self.number + 1, last, step)))
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=dict(self.environ)
        ) as process:
            assert process.stdout is not None
            said = []
            if step == 0:  # else it may end before it is ready
                said.append(process.stdout.readline())
            with _killed_after(process, after_s if step == 0 else None):
                said += process.stdout.read().splitlines(keepends=True)
        said = [line.rstrip() for line in said if line.endswith("\n")]  # the last may be torn by the kill
        acknowledged = [int(line.split()[1]) for line in said if line.startswith("ACK ")]
        steps = [line.removeprefix("STEP ") for line in said if line.startswith("STEP ")]
        return max(acknowledged, default=self.number), steps

    def check(self, where: str, acknowledged: int) -> None:
        """Reads the registry as the next comer does, beside one that is made anew of its graph, and counts faults."""
        now = self.reader.read(self.place)
        if "error" in now:
            self._fault("lost", where, now["error"])
            return
        if now["number"] is None:
            self._fault("half", where, "texts of several documents")
            return
        if not acknowledged <= now["number"] <= acknowledged + 1:
            self._fault("lost", where, f"{now['number']} where {acknowledged} was acknowledged")
        self.number = now["number"]
        with _copied(self.place, self.folder, without_index=True) as copy:
            anew = self.reader.read(copy)
        if "error" in anew or differs(now, anew):
            self._fault("silent", where, anew.get("error", "other answers than of an index made anew"))

    def _fault(self, fault: str, where: str, told: str) -> None:
        self.faults[fault] += 1
        self.told.append(f"{fault}, {where}: {told}")


def places_of(steps: Sequence[str], count: int, chance: random.Random) -> list[int]:
    """Numbers of steps, from 1, spread over all. Steps of the same call in a row are one place."""
    numbered = groupby(enumerate(steps, start=1), key=lambda step: step[1].partition(" ")[2])
    rows = [[number for number, _ in row] for _, row in numbered]
    chosen = (turn * len(rows) // count if count < len(rows) else turn % len(rows) for turn in range(count))
    return [chance.choice(rows[place]) for place in chosen]


@contextmanager
def _killed_after(process: "subprocess.Popen[str]", seconds: float | None) -> Iterator[None]:
    """Within the block the process is killed after that time; None: it ends by itself."""
    timer = threading.Timer(seconds or 0, process.kill)
    if seconds is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _copied(place: Path, folder: Path, *, without_index: bool) -> Iterator[Path]:
    """A copy of the registry, under a name of its own, gone at the end of the block."""
    left = (*LOCKS, "*.index") if without_index else LOCKS
    copy = Path(shutil.copytree(place.parent, folder / "copy", ignore=shutil.ignore_patterns(*left)))
    try:
        yield copy / place.name
    finally:
        shutil.rmtree(copy)


def flip_bits(
    place: Path, folder: Path, reader: Reader, rounds: int, chance: random.Random, *, of_index: bool
) -> Counter[str]:
    """Outcome → how often. Each time one bit of one file; files take turns, the places in them are random."""
    with _copied(place, folder, without_index=not of_index) as copy:
        right = reader.read(copy)
    seen: Counter[str] = Counter()
    for turn in range(rounds):
        with _copied(place, folder, without_index=not of_index) as copy:
            files = [file for file in sorted(copy.parent.rglob("*")) if file.is_file() and file.stat().st_size]
            files = [file for file in files if _is_of_index(file, copy) == of_index]
            flip(files[turn % len(files)], chance)
            seen[_outcome(reader.read(copy), right)] += 1
    return seen


def _is_of_index(file: Path, registry: Path) -> bool:
    return any(part.endswith(".index") for part in file.relative_to(registry.parent).parts)


def flip(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _outcome(read: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    if "error" in read:
        return "noticed" if read["ours"] else "foreign"
    return "silent" if differs(read, right) else "same"
