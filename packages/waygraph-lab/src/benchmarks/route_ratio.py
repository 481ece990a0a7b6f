"""`Registry.route` of this checkout beside that of an earlier commit, in one run on one machine.

The earlier code comes from the history. It writes the registry, of which each then opens a copy of its own.
"""

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import batched
from pathlib import Path
from statistics import median

from benchmarks.catalogue import requests
from benchmarks.processes import Answerer, plain_environ, python_module, run_answerer, run_process
from benchmarks.record import PROJECT, Measure, Result, Target
from benchmarks.timing import RUN, percentile
from benchmarks.world import World, scratch_folder, with_cache, write_catalogue

NAME = "route_ratio"
BASE = "0a75347b"
"""The commit whose routes are to be beaten: it came before history, the fit of calls and siblings counted."""
LAYERS = ("api", "cypher", "ingest", "registry")
COMMAND = "from waygraph.api.cli.app import main; main()"
SIZES, QUICK_SIZES = (500, 5_000, 20_000), (500,)
"""Tools."""
TEXTS, QUICK_TEXTS, WARM_UP = 600, 60, 40
FASTER = Target(bound="at_most", value=0.8)
NEW, OLD = "this checkout", f"commit {BASE}"
NOTES = (
    "Wall-clock time of Registry.route (default recipe) in one process of each; both are asked the same texts, ten in "
    "a row, each time the other one first. The ratio is the median of the rounds' ratios of p50.",
    "New texts are embedded by the process; the same texts again come from the cache of queries.",
)


def run(world: World) -> Result:
    with scratch_folder() as folder:
        if not export_layers(BASE, folder / "old"):
            return Result(name=NAME, skipped=f"commit {BASE} is not in the history of {PROJECT}")
        sizes, count = (QUICK_SIZES, QUICK_TEXTS) if world.quick else (world.sizes or SIZES, TEXTS)
        measures = [each for tools in sizes for each in measure(world, folder, tools, count)]
        fingerprint = world.embedder().fingerprint
        details = {"base": BASE, "texts": count}
        return Result(name=NAME, embedder=fingerprint, measures=measures, notes=NOTES, details=details)


def measure(world: World, folder: Path, tools: int, count: int) -> list[Measure]:
    """Time both over so many tools. `folder`/old holds the earlier code as the package `waygraph`."""
    settings = with_cache(world.settings, world.cache)
    environs = {
        name: plain_environ(world.environ) | {"WAYGRAPH_CACHE_DIR": settings.cache_dir, "PYTHONPATH": path}
        for name, path in {NEW: "", OLD: str(folder / "old")}.items()
    }
    own_folder = folder / str(tools)
    own_folder.mkdir()
    place = str(own_folder / "old.grafeo")
    ingest = [
        sys.executable,
        "-c",
        COMMAND,
        "--registry",
        place,
        "ingest",
        str(write_catalogue(own_folder, tools)),
    ]
    run_process(ingest, environs[OLD])
    own = str(own_folder / "new.grafeo")  # each brings the index to a form of its own
    shutil.copy(place, own)
    texts = requests(count + WARM_UP)
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(route_process({NEW: own, OLD: place}[name], environ))
            for name, environ in environs.items()
        }
        time_routes(processes, texts[:WARM_UP])
        new = time_routes(processes, texts[WARM_UP:])
        known = time_routes(processes, texts[WARM_UP:])
    name = f"Registry.route, {tools} tools"
    return [*_measures(f"{name}, new texts", new), *_measures(f"{name}, vector cached", known)]


def export_layers(commit: str, folder: Path) -> bool:
    """The layers of that commit under `folder`/waygraph. False if the commit is not in the history."""
    archive = subprocess.run(["git", "archive", commit, *LAYERS], cwd=PROJECT, capture_output=True, check=False)  # noqa: S607 - git from PATH
    if archive.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder / "waygraph", filter="data")
    (folder / "waygraph" / "__init__.py").touch()  # a folder without it would come after the installed package
    return True


def route_process(location: str, environ: Mapping[str, str]) -> AbstractContextManager[Answerer]:
    """Asked for a list of texts it answers with `ms` of each, and `mib`."""
    return run_answerer(python_module("benchmarks.route_process", location), environ)


def time_routes(processes: Mapping[str, Answerer], texts: Sequence[str]) -> dict[str, list[list[float]]]:
    """Process → milliseconds of each text, run by run, in turn."""
    times: dict[str, list[list[float]]] = {name: [] for name in processes}
    for turn, run_of_texts in enumerate(batched(texts, RUN)):
        names = list(processes) if turn % 2 else list(processes)[::-1]
        for name in names:
            times[name].append(processes[name].ask(list(run_of_texts))["ms"])
    return times


def _measures(name: str, times: Mapping[str, Sequence[Sequence[float]]]) -> list[Measure]:
    ratio = median(median(new) / median(old) for new, old in zip(times[NEW], times[OLD], strict=True))
    p50 = {arm: percentile([ms for run_ms in runs for ms in run_ms], 0.5) for arm, runs in times.items()}
    return [
        *(Measure(name=f"{name}, {arm}, p50", value=ms, unit="ms") for arm, ms in p50.items()),
        Measure(name=f"{name}, {NEW} / {OLD}", value=ratio, unit="×", target=FASTER),
    ]
