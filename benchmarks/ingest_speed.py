"""Ingest of 5,000 tools beside the bare cost of embedding the same texts, and an ingest that changes nothing."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from waygraph.ingest.sources import read_path
from waygraph.ingest.sync import sync
from waygraph.registry.embedding.entities import TextForms
from waygraph.registry.registry import Registry

from benchmarks.processes import ProcessFailed, run_process, waygraph_command
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, scratch_folder, shown, with_cache, write_catalogue

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Embedder

NAME = "ingest_speed"
TOOLS, QUICK_TOOLS, ROUNDS, QUICK_ROUNDS, UNCHANGED_RUNS = 5_000, 500, 2, 1, 5
TO_BARE = Target(bound="at_most", value=1.3)
UNCHANGED = Target(bound="at_most", value=1.5)
NOTES = (
    "Ingest: reading the file, planning, embedding, writing the graph and publishing the index, in one process, with an "
    "empty vector cache and the model's weights on disk.",
    "Bare: the same embedder without a cache is given the same distinct texts in one call (it uses as many threads as in "
    "the ingest). Ingest and bare run in turn; the ratio is the median of the rounds' ratios.",
    "Unchanged: the whole process `waygraph ingest FILE`, of a file already ingested; and the same by the library "
    "in a running process.",
)


def run(world: World) -> Result:
    tools, rounds = (QUICK_TOOLS, QUICK_ROUNDS) if world.quick else (TOOLS, ROUNDS)
    embedder = world.embedder()
    with scratch_folder() as folder:
        source = write_catalogue(folder, tools)
        texts = distinct_texts(world, source)
        embedder.embed(texts[:20], "document")
        ingests, bares, unchanged = [], [], []
        for number in range(rounds):
            place = folder / f"round-{number}"
            ingests.append(ingest_s(world, source, place))
            bares.append(bare_s(embedder, texts))
            unchanged.append(ingest_s(world, source, place))
        process, notes = _unchanged_process(world, source, place / "bench.grafeo")
    return Result(
        name=NAME,
        embedder=embedder.fingerprint,
        measures=_measures(tools, ingests, bares, unchanged, process),
        notes=(*NOTES, *notes),
        details={"texts": len(texts), "ingest_s": ingests, "bare_s": bares},
    )


def distinct_texts(world: World, source: Path) -> list[str]:
    """What an ingest into a new registry embeds."""
    forms = TextForms(form="contextual", max_chars=world.settings.max_embedded_chars)
    entries = [entry for manifest in read_path(str(source), world.settings) for entry in manifest.entries]
    return list(dict.fromkeys(text for texts in forms.of_entries(entries).values() for text in texts))


def ingest_s(world: World, source: Path, folder: Path) -> float:
    """Seconds of an ingest into the registry of this folder, which keeps its own vector cache."""
    settings = with_cache(world.settings, folder / "cache")
    started = time.perf_counter()
    with Registry.open(folder / "bench.grafeo", settings=settings, environ=world.environ) as registry:
        for manifest in read_path(str(source), settings):
            sync(registry, manifest, progress=shown("ingest"))
    return time.perf_counter() - started


def bare_s(embedder: "Embedder", texts: Sequence[str]) -> float:
    started = time.perf_counter()
    embedder.embed(texts, "document", progress=shown("bare embedding"))
    return time.perf_counter() - started


def _unchanged_process(world: World, source: Path, registry: Path) -> tuple[list[float], tuple[str, ...]]:
    command = waygraph_command("--registry", str(registry), "ingest", str(source))
    try:
        return [run_process(command, world).seconds for _ in range(UNCHANGED_RUNS)], ()
    except (ProcessFailed, FileNotFoundError) as failed:
        return [], (f"The command was not measured: {failed}",)


def _measures(
    tools: int, ingests: list[float], bares: list[float], unchanged: list[float], process: list[float]
) -> list[Measure]:
    ratio = median(ingest / bare for ingest, bare in zip(ingests, bares, strict=True))
    measures = [
        Measure(name=f"ingest of {tools} tools, empty vector cache", value=median(ingests), unit="s"),
        Measure(name="bare embedding of the same texts", value=median(bares), unit="s"),
        Measure(name=f"ingest of {tools} tools / bare embedding", value=ratio, unit="×", target=TO_BARE),
        Measure(name=f"the same again, unchanged, in a running process, {tools} tools", value=median(unchanged), unit="s"),
    ]
    if process:
        name = f"`waygraph ingest`, unchanged, {tools} tools"
        measures.append(Measure(name=name, value=median(process), unit="s", target=UNCHANGED))
    return measures
