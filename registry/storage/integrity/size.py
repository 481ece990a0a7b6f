"""What registries of several sizes take on this machine, measured, and what larger ones would take."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.settings import Settings

MEASURED_TOOLS = (500, 2_000, 5_000)
ESTIMATED_TOOLS = (1_000, 5_000, 20_000, 100_000, 1_000_000)
LEAST_POINTS, LEAST_SHARE = 3, 0.9
"""A line through fewer points, or that explains less of their variance, says nothing of other sizes."""
TOOLS_AN_AGENT, ROUTES = 10, 40
MIB = 1 << 20


class NotMeasured(WaygraphError):
    """A command that is measured failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a registry of so many tools takes. None: it cannot be told from what was measured.

    `change_*`: one agent of ten tools, by a process of its own. `reader_mib`, `*_peak_mib`: the most resident memory.
    `route_ms`: the median of routes whose vector is at hand, on one processor. `disk_mib`: graph and index;
    `vectors_mib`: the cache of vectors, of all registries. `ingest_s`: with every text to embed.
    """

    tools: int
    disk_mib: float | None
    vectors_mib: float | None
    reader_mib: float | None
    route_ms: float | None
    change_s: float | None
    change_peak_mib: float | None
    ingest_s: float | None
    ingest_peak_mib: float | None


QUANTITIES = tuple(field.name for field in fields(Size) if field.name != "tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    embedder: str
    measurements: Sequence[Size]
    estimates: Sequence[Size]


def measure_sizes(
    settings: Settings,
    embedder: str,
    environ: Mapping[str, str],
    *,
    sizes: Sequence[int] = MEASURED_TOOLS,
    progress: Callable[[str], None] = lambda _: None,
) -> Sizes:
    """Makes registries of invented agents in a folder that is removed. It takes a minute, and 300 MiB of disk.

    Raises NotMeasured, also for an embedder at an endpoint, which would have to be paid.
    """
    if embedder.startswith("openai:"):
        raise NotMeasured(f"{embedder} is at an endpoint, and some 10,000 texts are embedded: take a local --embedder")
    measurements = []
    for tools in sizes:
        progress(f"measuring {tools} tools")
        with tempfile.TemporaryDirectory(prefix="waygraph-size-") as folder:
            measurements.append(_Trial(Path(folder), settings, embedder, environ).size(tools))
    points = {name: [(each.tools, float(getattr(each, name))) for each in measurements] for name in QUANTITIES}
    estimates = [
        Size(tools=tools, **{name: estimate(values, tools) for name, values in points.items()})
        for tools in ESTIMATED_TOOLS
    ]
    return Sizes(embedder=embedder, measurements=measurements, estimates=estimates)


def estimate(points: Sequence[tuple[int, float]], tools: int) -> float | None:
    """By the line of least squares through (tools, value).

    None where the line is not sound: through fewer than 3 points, not rising, or with less than .9 of their variance.
    """
    if len({count for count, _ in points}) < LEAST_POINTS:
        return None
    from statistics import StatisticsError, correlation, linear_regression

    counts, values = zip(*points, strict=True)
    try:
        share = correlation(counts, values) ** 2
    except StatisticsError:  # all values are one
        return None
    line = linear_regression(counts, values)
    return line.slope * tools + line.intercept if line.slope > 0 and share >= LEAST_SHARE else None


@dataclass(frozen=True, slots=True)
class _Usage:
    output: str
    seconds: float
    peak_mib: float


class _Trial:
    """One registry in a folder, by commands as a user gives them."""

    def __init__(self, folder: Path, settings: Settings, embedder: str, environ: Mapping[str, str]) -> None:
        self._folder, self._embedder = folder, embedder
        cache = folder / "cache"
        self._environ = {**environ, "WAYGRAPH_DATA_DIR": str(folder / "data"), "WAYGRAPH_CACHE_DIR": str(cache)}
        cache.mkdir()
        models = settings.cache_path / "models"
        if models.is_dir():  # an empty cache of vectors, but the weights that are there
            (cache / "models").symlink_to(models.resolve())

    def size(self, tools: int) -> Size:
        path = self._folder / "registry.grafeo"
        first = self._ingest(path, tools)
        change = self._ingest(path, TOOLS_AN_AGENT)
        reader = self._run("-m", __name__, str(path), self._embedder)
        return Size(
            tools=tools,
            disk_mib=_disk_mib(path) + _disk_mib(path.with_name(f"{path.name}.index")),
            vectors_mib=_disk_mib(self._folder / "cache" / "vectors"),
            reader_mib=reader.peak_mib,
            route_ms=float(reader.output),
            change_s=change.seconds,
            change_peak_mib=change.peak_mib,
            ingest_s=first.seconds,
            ingest_peak_mib=first.peak_mib,
        )

    def _ingest(self, path: Path, tools: int) -> _Usage:
        file = self._folder / f"{tools}.json"
        file.write_text(json.dumps(invent(tools, seed=tools)), encoding="utf-8")
        return self._run("-m", "waygraph", "--registry", str(path), "--embedder", self._embedder, "ingest", str(file))

    def _run(self, *arguments: str) -> _Usage:
        """Raises NotMeasured."""
        out, err = self._folder / "out", self._folder / "err"
        start = time.perf_counter()
        with out.open("wb") as output, err.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments], stdout=output, stderr=errors, stdin=subprocess.DEVNULL, env=self._environ
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            lines = err.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise NotMeasured(f"{' '.join(arguments[:2])} failed: {lines[-1] if lines else process.returncode}")
        return _Usage(out.read_text(encoding="utf-8"), time.perf_counter() - start, _peak_mib(usage))


def _peak_mib(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / (MIB if sys.platform == "darwin" else 1024)


def _disk_mib(path: Path) -> float:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files) / MIB


# -- invented agents ---------------------------------------------------------------------------------

_SYLLABLES = ("ba", "der", "fi", "gol", "ka", "lu", "men", "no", "per", "ri", "sa", "tor", "ul", "ven", "wa", "zi")


def invent(tools: int, *, seed: int) -> dict[str, Any]:
    """A catalogue document of so many tools, ten an agent; the frequency of its words falls as that of real ones."""
    return {"waygraph": 1, "agents": list(_agents(tools, random.Random(seed)))}  # noqa: S311 - not a secret


def _agents(tools: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    words = sorted({"".join(chance.choices(_SYLLABLES, k=3)) for _ in range(3_000)})
    weights = [1 / rank for rank in range(1, len(words) + 1)]

    def text(count: int) -> str:
        return " ".join(chance.choices(words, weights, k=count))

    def tool(number: int) -> dict[str, Any]:
        properties = {name: {"type": "string", "description": text(6)} for name in chance.sample(words, 3)}
        schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        return {"name": f"{chance.choice(words)}_{number}", "description": text(20), "inputSchema": schema}

    for start in range(0, tools, TOOLS_AN_AGENT):
        numbers = range(start, min(start + TOOLS_AN_AGENT, tools))
        name = f"{chance.choice(words)}-{tools}-{start}"
        tools_of = [tool(number) for number in numbers]
        yield {"id": name, "name": name, "kind": "custom", "description": text(12), "tools": tools_of}


# -- a reader, in a process of its own ---------------------------------------------------------------


def _route_ms(path: str, embedder: str) -> float:
    """The median of routes whose vector is at hand."""
    from statistics import median

    from waygraph.registry.storage.local_registry import LocalRegistry

    requests = [agent["description"] for agent in invent(TOOLS_AN_AGENT * ROUTES, seed=0)["agents"]]
    durations_s = []
    with LocalRegistry.open(path, embedder=embedder) as registry:
        for request in requests:
            registry.route(request)
        for request in requests:
            start = time.perf_counter()
            registry.route(request)
            durations_s.append(time.perf_counter() - start)
    return median(durations_s) * 1_000


if __name__ == "__main__":
    sys.stdout.write(str(_route_ms(*sys.argv[1:])))
