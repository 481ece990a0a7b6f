"""What a change and a route cost as a registry grows, of this checkout and, if asked, of an earlier commit beside it.

The embedder is a sum of words' vectors: what is measured is the store.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.catalogue import catalogue, requests
from benchmarks.processes import plain_environ
from benchmarks.record import Measure, Result, Target
from benchmarks.route_ratio import export_layers
from benchmarks.store.children import MIB, Cost, Staying, run_waygraph, staying
from benchmarks.store.words import SPEC, install_words
from benchmarks.timing import RUN, percentile
from benchmarks.world import World, scratch_folder, write_catalogue

NAME = "scale"
SIZES, QUICK_SIZES = (500, 5_000, 20_000), (100, 500)
ROUNDS, FEW_ROUNDS, QUICK_ROUNDS, MANY_TOOLS = 7, 3, 1, 20_000
"""Changes that are measured, fewer from so many tools on."""
TEXTS, PASSES, ROW, QUICK_ROW, ROW_TOOLS = 200, 3, 50, 5, 20_000
TOOLS_CHANGED, LISTED = 10, {"type": "object"}
NEW = "this checkout"
ASKED: Mapping[str, Mapping[int, float]] = {
    "own_s": {500: 0.35, 5_000: 0.45, 100_000: 1.3},
    "own_mib": {100_000: 550},
    "own_written_mib": {100_000: 5},
    "staying_s": {500: 0.02, 5_000: 0.04, 100_000: 0.3},
    "first_s": {100_000: 60},
    "first_mib": {100_000: 1024},
    "route_ms": {5_000: 0.6, 100_000: 3, 500_000: 12},
    "reader_mib": {100_000: 200},
    "pause_ms": {20_000: 50},
}
"""What is measured → tools → at most so much."""
LABELS: Mapping[str, tuple[str, str]] = {
    "own_s": ("one agent of ten tools changed, a process of its own", "s"),
    "own_cpu_s": ("processor time of that", "s"),
    "own_mib": ("peak memory of that", "MiB"),
    "own_written_mib": ("written to disk by that", "MiB"),
    "staying_s": ("one agent of ten tools changed, by a process that stays", "s"),
    "first_s": ("first ingest", "s"),
    "first_cpu_s": ("processor time of that", "s"),
    "first_mib": ("peak memory of that", "MiB"),
    "first_written_mib": ("written to disk by that", "MiB"),
    "route_ms": ("route, vector cached, p50", "ms"),
    "reader_mib": ("memory of a reading process", "MiB"),
    "row_s": ("changes in a row beside a reader, median", "s"),
    "row_growth": ("the last tenth of them / the first tenth", "×"),
    "row_files": ("most bytes of files meanwhile / before", "×"),
    "pause_ms": ("worst route of the reader meanwhile", "ms"),
}
"""What is measured → its words and unit. The order is that of the table."""
NOTES = (
    "Each process is Waygraph's command line, from start to end, or one that opens the registry and stays; those of "
    "two commits run in turn. Medians. One change of each is not counted.",
    "Peak memory is the process's high-water mark (VmHWM); written is write_bytes less cancelled_write_bytes of "
    "/proc/PID/io, read when the process has ended.",
    "The embedder adds fixed vectors of words (384 numbers): some 30 µs a text, which are counted. Its vectors and the "
    "query's come from Waygraph's caches where those have them.",
    "Changes in a row: one agent, each time with other texts; a reader routes without a pause in a process of its own. "
    f"An earlier commit makes {QUICK_ROW} of them.",
)


@dataclass(frozen=True, slots=True)
class Arm:
    """One version of the code. `registry` is a file of its own."""

    name: str
    environ: Mapping[str, str]
    registry: Path

    def run(self, *arguments: str) -> Cost:
        return run_waygraph(["--registry", str(self.registry), *arguments], self.environ)

    def file_bytes(self) -> int:
        """Of the registry and all that lies beside it under its name."""
        places = self.registry.parent.rglob("*")
        return sum(place.stat().st_size for place in places if place.name != "cache" and place.is_file())


@dataclass
class Changes:
    """Documents of one agent of ten tools, each time with other texts under the same names."""

    number: int = 0

    def next(self) -> dict[str, Any]:
        self.number += 1
        written = catalogue(2 * TOOLS_CHANGED, seed=self.number)["agents"]
        texts = [tool["description"] for agent in written for tool in agent["tools"]][:TOOLS_CHANGED]
        tools = [
            {"name": f"do_{place}", "description": f"{text} Change {self.number}.", "inputSchema": LISTED}
            for place, text in enumerate(texts)
        ]
        agent = {"id": "changing", "name": "Changing", "description": written[0]["description"], "tools": tools}
        return {"waygraph": 1, "agents": [agent]}


@dataclass
class Found:
    """Arm → tools → what → value. `quick`: each is measured once."""

    quick: bool
    values: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)

    def rounds(self, tools: int) -> range:
        """0 is not counted."""
        if self.quick:
            return range(QUICK_ROUNDS + 1)
        return range((ROUNDS if tools < MANY_TOOLS else FEW_ROUNDS) + 1)

    def put(self, arm: str, tools: int, **values: float) -> None:
        self.values.setdefault(arm, {}).setdefault(tools, {}).update(values)


def run(world: World) -> Result:
    sizes = world.sizes or (QUICK_SIZES if world.quick else SIZES)
    row = world.rounds or (QUICK_ROW if world.quick else ROW)
    with scratch_folder() as folder:
        if world.base and not export_layers(world.base, folder / "old"):
            return Result(name=NAME, skipped=f"commit {world.base} is not in this clone's history")
        return measure(world, folder, sizes, row)


def measure(world: World, folder: Path, sizes: Sequence[int], row: int) -> Result:
    """`folder`/old holds the code of `world.base` as the package `waygraph`, if one is named."""
    found, changes = Found(quick=world.quick), Changes()
    row_tools = max((tools for tools in sizes if tools <= ROW_TOOLS), default=min(sizes))
    for arm in _arms(world, folder, TOOLS_CHANGED):  # the first process compiles what it imports
        arm.run("ingest", str(write_catalogue(folder, TOOLS_CHANGED)))
    for tools in sizes:
        arms = list(_arms(world, folder, tools))
        catalog = write_catalogue(folder, tools)
        for arm in arms:
            found.put(arm.name, tools, **_prefixed("first", arm.run("ingest", str(catalog))))
        _measure_own(arms, tools, changes, found)
        with _processes(arms) as (writers, readers):
            _measure_staying(writers, tools, changes, found)
            _measure_routes(readers, tools, found)
            if tools == row_tools:
                for arm in arms:
                    count = row if arm.name == NEW else min(row, QUICK_ROW)
                    found.put(arm.name, tools, **_row(arm, writers[arm.name], readers[arm.name], changes, count))
    return Result(
        name=NAME,
        embedder=SPEC,
        measures=list(measures_of(found.values)),
        notes=NOTES,
        details={"base": world.base, "changes_in_a_row": row, "values": found.values},
    )


def measures_of(values: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Iterator[Measure]:
    """Every value; the targets are this checkout's. Then each of this checkout by the earlier commit's."""
    base: Mapping[int, Mapping[str, float]] = next((by for arm, by in values.items() if arm != NEW), {})
    for what, (_, unit) in LABELS.items():
        for arm, by_tools in values.items():
            for tools, found in by_tools.items():
                if what in found:
                    most = ASKED.get(what, {}).get(tools) if arm == NEW else None
                    target = None if most is None else Target(bound="at_most", value=most)
                    name = f"{tools} tools, {_whole_label(what)}, {arm}"
                    yield Measure(name=name, value=found[what], unit=unit, target=target)
        for tools, found in base.items():
            if found.get(what) and what in values[NEW][tools]:
                ratio = values[NEW][tools][what] / found[what]
                yield Measure(name=f"{tools} tools, {_whole_label(what)}, new / old", value=ratio, unit="×")


def _whole_label(what: str) -> str:
    label, _ = LABELS[what]
    main = {"own": "own_s", "first": "first_s"}.get(what.partition("_")[0], what)
    return label if what == main else f"{LABELS[main][0]}: {label}"


def _arms(world: World, folder: Path, tools: int) -> Iterator[Arm]:
    plugins = str(install_words(folder / "plugins"))
    codes = {NEW: [plugins]} | ({f"commit {world.base}": [plugins, str(folder / "old")]} if world.base else {})
    for number, (name, paths) in enumerate(codes.items()):
        home = folder / f"{tools}-{number}"
        home.mkdir(exist_ok=True)
        added = {
            "PYTHONPATH": ":".join(paths),
            "WAYGRAPH_EMBEDDER": SPEC,
            "WAYGRAPH_CACHE_DIR": str(folder / f"cache-{number}"),
        }
        yield Arm(name, plain_environ(world.environ) | added, home / "bench.grafeo")


def _prefixed(prefix: str, cost: Cost) -> dict[str, float]:
    return {
        f"{prefix}_s": cost.seconds,
        f"{prefix}_cpu_s": cost.cpu_s,
        f"{prefix}_mib": cost.peak_mib,
        f"{prefix}_written_mib": cost.written_mib,
    }


def _measure_own(arms: Sequence[Arm], tools: int, changes: Changes, found: Found) -> None:
    costs: dict[str, list[Cost]] = {arm.name: [] for arm in arms}
    for number in found.rounds(tools):
        document = changes.next()
        for arm in arms:
            file = arm.registry.with_name("change.json")
            file.write_text(json.dumps(document), encoding="utf-8")
            cost = arm.run("ingest", str(file))
            if number:
                costs[arm.name].append(cost)
    for name, runs in costs.items():
        middle = {key: median(asdict(cost)[key] for cost in runs) for key in asdict(runs[0])}
        found.put(name, tools, **_prefixed("own", Cost(**middle)))


@contextmanager
def _processes(arms: Sequence[Arm]) -> Iterator[tuple[dict[str, Staying], dict[str, Staying]]]:
    """Writers and readers, by arm."""
    with ExitStack() as stack:

        def opened() -> dict[str, Staying]:
            return {arm.name: stack.enter_context(staying(arm.registry, arm.environ)) for arm in arms}

        yield opened(), opened()


def _measure_staying(writers: Mapping[str, Staying], tools: int, changes: Changes, found: Found) -> None:
    times: dict[str, list[float]] = {name: [] for name in writers}
    for number in found.rounds(tools):
        document = changes.next()
        for name, writer in writers.items():
            ms = writer.change(document)
            if number:
                times[name].append(ms)
    for name, each in times.items():
        found.put(name, tools, staying_s=median(each) / 1000)


def _measure_routes(readers: Mapping[str, Staying], tools: int, found: Found) -> None:
    texts = requests(TEXTS)
    times: dict[str, list[float]] = {name: [] for name in readers}
    for reader in readers.values():
        reader.route(texts)
    for _ in range(PASSES):
        for start in range(0, len(texts), RUN):
            for name, reader in readers.items():
                times[name] += reader.route(texts[start : start + RUN])
    for name, reader in readers.items():
        found.put(name, tools, route_ms=percentile(times[name], 0.5), reader_mib=reader.resident_mib())


def _row(arm: Arm, writer: Staying, reader: Staying, changes: Changes, count: int) -> dict[str, float]:
    """So many changes, one after the other, beside a reader that never pauses."""
    before, most, times = arm.file_bytes(), 0, list[float]()
    with _routing(reader) as pauses:
        for _ in range(count):
            times.append(writer.change(changes.next()) / 1000)
            most = max(most, arm.file_bytes())
    tenth = max(1, count // 10)
    return {
        "row_s": median(times),
        "row_growth": median(times[-tenth:]) / median(times[:tenth]),
        "row_files": most / before,
        "row_mib": most / MIB,
        "pause_ms": max(pauses),
    }


@contextmanager
def _routing(reader: Staying) -> Iterator[list[float]]:
    """The milliseconds of each route, which are complete when the block ends."""
    stop, times, faults, texts = threading.Event(), list[float](), list[Exception](), requests(TEXTS)

    def route() -> None:
        try:
            while not stop.is_set():
                times.extend(reader.route(texts[:RUN]))
        except Exception as fault:  # noqa: BLE001 - raised again by the thread that waits
            faults.append(fault)

    thread = threading.Thread(target=route)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()
    if faults:
        raise faults[0]
