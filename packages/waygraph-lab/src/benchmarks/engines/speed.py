"""What one engine takes for a registry's graph: time, memory and bytes, in processes of their own."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.engines.children import in_child
from benchmarks.engines.contenders import CONTENDERS, FILE
from benchmarks.engines.contents import change, fill
from benchmarks.processes import status_mib
from waygraph.registry.graph.read import read_agents, read_claims, read_state, read_tools, read_vectors

CHANGES = 30
TIMEOUT_S = 900.0
MB = 1e6

type Figures = dict[str, float]
"""What was measured, its unit at the end of its name → the figure."""


def measure_speed(name: str, folder: Path, tools: int) -> Figures:
    """Fills a graph with so many tools, then opens, reads, changes, copies and closes it."""
    folder.mkdir(parents=True)
    figures: Figures = {}
    for step in (measure_fill, measure_reads, measure_changes):
        ended = in_child(step, name, folder, tools, timeout_s=TIMEOUT_S)
        assert ended.how == "answered", ended
        figures |= ended.value
    return figures


def measure_fill(name: str, folder: Path, tools: int) -> Figures:
    figures: Figures = {}
    with _timed(figures, "fill and commit, s"):
        engine = CONTENDERS[name].open(folder / FILE)
        fill(engine, tools)
    with _timed(figures, "checkpoint and close, s"):
        engine.close()
    del engine
    return figures | {"fill, peak memory, MiB": _peak_mib(), "file, MB": _bytes_of(folder) / MB}


def measure_reads(name: str, folder: Path, tools: int) -> Figures:  # noqa: ARG001 - as the other steps
    figures: Figures = {}
    before = status_mib(os.getpid(), "VmRSS:")
    with _timed(figures, "open, s"):
        engine = CONTENDERS[name].open(folder / FILE)
        read_state(engine)
    figures["open, resident memory, MiB"] = status_mib(os.getpid(), "VmRSS:") - before
    with _timed(figures, "agents and claims, s"):
        agents = [*read_agents(engine)]
        read_claims(engine)
    with _timed(figures, "all tools, s"):
        ids = [each.tool.id for each in read_tools(engine)]
    with _timed(figures, "vectors of 1,000 tools, s"):
        read_vectors(engine, tools=ids[:1_000])
    figures["tools of one agent, ms"] = (
        1_000
        * median(
            _seconds(lambda agent=agent: read_tools(engine, [agent]))  # type: ignore[misc]
            for agent in agents[:200]
        )
    )
    with _timed(figures, "close, nothing written, s"):
        engine.close()
    return figures


def measure_changes(name: str, folder: Path, tools: int) -> Figures:  # noqa: ARG001 - as the other steps
    contender, file = CONTENDERS[name], folder / FILE
    figures: Figures = {}
    engine = contender.open(file)
    written = _written_bytes()
    with _timed(figures, "first change of ten tools, s"):
        change(engine, 1)
    times = [_seconds(lambda number=number: change(engine, number)) for number in range(2, CHANGES + 1)]  # type: ignore[misc]
    figures["next changes, ms"] = 1_000 * median(times)
    figures["written a change, MB"] = (_written_bytes() - written) / CHANGES / MB
    with _timed(figures, "log to the disk, s"):
        contender.secure(engine, file)
    with _timed(figures, "copy while it is open, s"):
        engine.save(folder / "copy")
    written = _written_bytes()
    with _timed(figures, "checkpoint, s"):
        engine.checkpoint()
    figures["written by a checkpoint, MB"] = (_written_bytes() - written) / MB
    change(engine, CHANGES + 1)
    beside = in_child(seen_beside, name, folder)
    figures["changes that a reader beside the writer sees, of 31"] = beside.value if beside.how == "answered" else 0
    figures["changes, peak memory, MiB"] = _peak_mib()
    with _timed(figures, "close after a change, s"):
        engine.close()
    return figures


def seen_beside(name: str, folder: Path) -> int:
    """The revision that another process reads from the file while its writer has it open."""
    state = read_state(CONTENDERS[name].open_copy(folder / FILE))
    return state.revision if state else 0


@contextmanager
def _timed(figures: Figures, what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    figures[what] = time.perf_counter() - start


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak_mib() -> float:
    return status_mib(os.getpid(), "VmHWM:")


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _written_bytes() -> int:
    """What this process has written, as it asked for it: the file system may write more, or not yet."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("wchar:"))
