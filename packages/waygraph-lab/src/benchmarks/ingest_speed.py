"""Ingest of 5,000 tools beside the bare cost of embedding the same texts, and an ingest that changes nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.processes import plain_environ, run_process, waygraph_command
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, scratch_folder, show_progress, with_cache, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.registry import Registry

NAME = "ingest_speed"
TOOLS, QUICK_TOOLS, ROUNDS, QUICK_ROUNDS, UNCHANGED_RUNS = 5_000, 500, 2, 1, 5
TO_BARE = Target(bound="at_most", value=1.3)
UNCHANGED = Target(bound="at_most", value=1.5)
NOTES = (
    "Ingest: reading the file, planning, embedding, writing the graph and publishing the index, in one process, with "
    "an empty vector cache and the model's weights on disk.",
    "Bare: the same embedder without a cache is given the same distinct texts in one call (it uses as many threads as "
    "in the ingest). Ingest and bare run in turn; the ratio is the median of the rounds' ratios.",
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
        embed = partial(embedder.embed, texts, "document", progress=show_progress("bare embedding"))
        places = [folder / f"round-{number}" for number in range(rounds)]
        for place in places:
            ingests.append(time_work(partial(ingest, world, source, place)))
            bares.append(time_work(embed))
            unchanged.append(time_work(partial(ingest, world, source, place)))
        command = waygraph_command("--registry", str(places[-1] / "bench.grafeo"), "ingest", str(source))
        process = [run_process(command, plain_environ(world.environ)).seconds for _ in range(UNCHANGED_RUNS)]
    return Result(
        name=NAME,
        embedder=embedder.fingerprint,
        measures=_measures(tools, ingests, bares, unchanged, process),
        notes=NOTES,
        details={"texts": len(texts), "ingests": [asdict(t) for t in ingests], "bare": [asdict(t) for t in bares]},
    )


def distinct_texts(world: World, source: Path) -> list[str]:
    """What an ingest into a new registry embeds."""
    forms = TextForms(form="contextual", max_chars=world.settings.max_embedded_chars)
    entries = [entry for manifest in read_path(str(source), world.settings) for entry in manifest.entries]
    return list(dict.fromkeys(text for parts in forms.of_entries(entries).values() for text in parts.texts))


@dataclass(frozen=True, slots=True)
class WorkTime:
    """Wall-clock and processor time of this process."""

    seconds: float
    cpu_s: float


def ingest(world: World, source: Path, folder: Path) -> None:
    """An ingest into the registry of this folder, which keeps its own vector cache."""
    settings = with_cache(world.settings, folder / "cache")
    place = folder / "bench.grafeo"
    with Registry.open(place, settings=settings, environ=world.environ) as registry:
        for manifest in read_path(str(source), settings):
            sync(registry, manifest, progress=show_progress("ingest"))


def time_work(work: Callable[[], object]) -> WorkTime:
    started, used = time.perf_counter(), time.process_time()
    work()
    return WorkTime(time.perf_counter() - started, time.process_time() - used)


def _measures(
    tools: int,
    ingests: Sequence[WorkTime],
    bares: Sequence[WorkTime],
    unchanged: Sequence[WorkTime],
    process: Sequence[float],
) -> list[Measure]:
    pairs = list(zip(ingests, bares, strict=True))
    name = f"ingest of {tools} tools, empty vector cache"
    ratio, cpu_ratio = median(i.seconds / b.seconds for i, b in pairs), median(i.cpu_s / b.cpu_s for i, b in pairs)
    again = median(t.seconds for t in unchanged)
    return [
        Measure(name=name, value=median(t.seconds for t in ingests), unit="s"),
        Measure(name="bare embedding of the same texts", value=median(t.seconds for t in bares), unit="s"),
        Measure(name=f"{name} / bare embedding", value=ratio, unit="×", target=TO_BARE),
        Measure(name=f"{name} / bare embedding, processor time", value=cpu_ratio, unit="×"),
        Measure(name=f"the same again, unchanged, in a running process, {tools} tools", value=again, unit="s"),
        Measure(name=f"`waygraph ingest`, unchanged, {tools} tools", value=median(process), unit="s", target=UNCHANGED),
    ]
