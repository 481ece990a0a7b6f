"""Ingest of `awesome_mcp.jsonl`, 7,796 servers without tools, beside the bare cost of embedding their texts."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks.ingest_speed import TO_BARE, Took, distinct_texts, ingest, took
from benchmarks.record import Measure, Result
from benchmarks.world import World, scratch_folder, shown

NAME = "lines_speed"
DATA = "catalogs/awesome_mcp.jsonl"
QUICK_LINES, ROUNDS, QUICK_ROUNDS = 200, 2, 1
NOTES = (
    "Ingest: reading the lines, planning, embedding, writing the graph and publishing the index, in one process, with "
    "an empty vector cache and the model's weights on disk.",
    "Bare: the same embedder without a cache is given the same distinct texts in one call. Ingest and bare run in "
    "turn; the ratio is the median of the rounds' ratios.",
    "Without an embedder: the same ingest into a registry that has none, which is all but the embedding.",
)


def run(world: World) -> Result:
    data = world.data / DATA
    if not data.is_file():
        return Result(name=NAME, skipped=f"no {DATA}: give the data's folder by --data or WAYGRAPH_BENCH_DATA")
    embedder = world.embedder()
    with scratch_folder() as folder:
        source = _shortened(data, folder) if world.quick else data
        texts = distinct_texts(world, source)
        embedder.embed(texts[:20], "document")
        ingests, bares, without = [], [], []
        for number in range(QUICK_ROUNDS if world.quick else ROUNDS):
            place = folder / f"round-{number}"
            ingests.append(took(partial(ingest, world, source, place)))
            bares.append(took(partial(embedder.embed, texts, "document", progress=shown("bare embedding"))))
            without.append(took(partial(ingest, world, source, place / "bare", embedder="none")))
        lines = sum(1 for _ in source.open(encoding="utf-8"))
    return Result(
        name=NAME,
        embedder=embedder.fingerprint,
        measures=_measures(lines, ingests, bares, without),
        notes=NOTES,
        details={"texts": len(texts), "ingests": [asdict(t) for t in ingests], "bare": [asdict(t) for t in bares]},
    )


def _shortened(source: Path, folder: Path) -> Path:
    short = folder / source.name
    with source.open(encoding="utf-8") as lines:
        short.write_text("".join(islice(lines, QUICK_LINES)), encoding="utf-8")
    return short


def _measures(
    lines: int, ingests: Sequence[Took], bares: Sequence[Took], without: Sequence[Took]
) -> tuple[Measure, ...]:
    pairs = list(zip(ingests, bares, strict=True))
    name = f"ingest of {lines} lines, empty vector cache"
    ratio, cpu_ratio = median(i.seconds / b.seconds for i, b in pairs), median(i.cpu_s / b.cpu_s for i, b in pairs)
    return (
        Measure(name=name, value=median(t.seconds for t in ingests), unit="s"),
        Measure(name=f"bare embedding of the {lines} lines' texts", value=median(t.seconds for t in bares), unit="s"),
        Measure(name=f"{name} / bare embedding", value=ratio, unit="×", target=TO_BARE),
        Measure(name=f"{name} / bare embedding, processor time", value=cpu_ratio, unit="×"),
        Measure(
            name=f"ingest of {lines} lines without an embedder", value=median(t.seconds for t in without), unit="s"
        ),
    )
