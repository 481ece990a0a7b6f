"""`python -m benchmarks.peers [run|table]`: measures all contenders, writes evals/peers.json and the page's table."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.endpoint import remove_endpoint
from benchmarks.peers import table
from benchmarks.peers.contenders import CONTENDERS, HYBRID, Contender
from benchmarks.peers.measure import LIMIT, Effort, accounts, row
from benchmarks.peers.peer import pad_catalogue, write_catalogue_file
from benchmarks.record import PROJECT, Measure, Result, as_record, write_record
from benchmarks.world import DATA_VARIABLE, data_folder, scratch_folder, with_cache
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.settings import Settings, load_settings
from waygraph_lab.evaluation.dataset import Asked

NAME = "peers"
PAGE = PROJECT / "evals" / "README.md"
PADDED_TOOLS = 5_001
EFFORTS = (Effort(budget_s=8, whole_below_ms=inf), Effort(budget_s=12, whole_below_ms=1_000))
"""At the dataset's own size, where quality is judged, and at `PADDED_TOOLS`."""
NOTES = (
    "Every contender takes the same catalogue in and is asked the same texts in a process of its own; all are asked in "
    "turn, in blocks of 20 texts, each time another one first.",
    "A time is from text to answer, the embedding of the query included, by the same int8 all-MiniLM-L6-v2 for all; no "
    "vector of a query is remembered. p50_ratio is p50 over that of Waygraph hybrid for the same texts in this run.",
    "Recall and nDCG are of agents: a tool counts for the agent that owns it, distinct agents in the order of their "
    "best tools. `fewer` counts the queries answered with fewer than 5 agents.",
    "ingest_s counts imports and leaves out the vectors of documents (vectors_s), which come from a cache on disk but "
    "for newly_embedded texts; texts_embedded is how many texts a contender wants embedded.",
    "OPENBLAS_NUM_THREADS is 1 for all: with more, numpy's products over a matrix of this size wait for each other's "
    "threads on a machine with other work.",
    "All are given the texts as they stand. What Waygraph makes of URLs, paths and pasted files in them is its own.",
    "Memory is VmRSS of the process after its last answer, the ingest having run in it.",
    "The best settings of a peer were chosen among those of its public options on these very queries, which flatters "
    "it; Waygraph's recipes are as they ship.",
    "A peer too slow to be asked everything at the padded size is asked a seeded sample, and its quality there is not "
    "judged.",
)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    options = _parser().parse_args(arguments)
    if options.work == "run":
        environ = remove_endpoint(environ)
        data = options.data or data_folder(environ)
        comparison = Comparison(folder=data / "livemcpbench", settings=load_settings(environ), environ=environ)
        result = comparison.result()
        if result.skipped:
            print(f"{NAME}: skipped, {result.skipped}", file=sys.stderr)
            return 0
        write_record(make_record(result), options.evals)
    if not options.page.is_file():
        print(f"no table is written: there is no {options.page}", file=sys.stderr)
        return 0
    table.write_table(options.evals / f"{NAME}.json", options.page)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`folder` holds LiveMCPBench. One of the contenders is Waygraph hybrid: the others are compared with it."""

    folder: Path
    settings: Settings
    environ: Mapping[str, str]
    contenders: Sequence[Contender] = CONTENDERS
    efforts: tuple[Effort, Effort] = EFFORTS
    padded_tools: int = PADDED_TOOLS

    def result(self) -> Result:
        from waygraph_lab.datasets.read_dataset import read_dataset

        if not (self.folder / "steps_aligned.json").is_file():
            return Result(name=NAME, skipped=f"no data: give its folder by --data or {DATA_VARIABLE}")
        load = round(os.getloadavg()[0], 1)
        dataset = read_dataset(self.folder, self.settings)
        asked = dataset.queries("steps")
        more = pad_catalogue(dataset.catalogue, self.padded_tools, self.settings)
        rows = [
            one
            for catalogue, effort in zip((dataset.catalogue, more), self.efforts, strict=True)
            for one in self._rows(catalogue, asked, effort)
        ]
        return Result(
            name=NAME,
            embedder=_fingerprint(self.settings),
            measures=[measure for one in rows for measure in _measures(one)],
            notes=NOTES,
            details={"queries": len(asked), "limit": LIMIT, "load_before": load, "rows": rows},
        )

    def _rows(self, catalogue: Manifest, asked: Sequence[Asked], effort: Effort) -> list[dict[str, Any]]:
        tools = sum(len(entry.tools) for entry in catalogue.entries)
        cache = with_cache(self.settings, self.settings.cache_path / "benchmarks").cache_path
        with scratch_folder() as scratch:
            path = scratch / f"{tools}-tools.json"
            write_catalogue_file(catalogue, path)
            kept = accounts(self.contenders, path, asked, effort, cache=cache, environ=self.environ)
        reference = next(account for account in kept if account.contender.name == HYBRID)
        return [row(account, asked, reference, tools) for account in kept]


def make_record(result: Result) -> dict[str, Any]:
    """The record, with the versions of the peers beside those of our own libraries."""
    record = as_record(result, "make bench-peers")
    record["versions"] |= {row["package"]: row["version"] for row in result.details["rows"]}
    return record


def _measures(one: Mapping[str, Any]) -> list[Measure]:
    named = {"R@1": "", "R@5": "", "p50_ratio": "×"}
    return [
        Measure(name=f"{one['name']}, {one['tools']} tools: {key}", value=one[key], unit=unit)
        for key, unit in named.items()
        if one.get(key) is not None
    ]


def _fingerprint(settings: Settings) -> str:
    from waygraph.registry.embedding.factory import open_embedder
    from waygraph.registry.model.settings import DEFAULT_EMBEDDER

    opened = open_embedder(DEFAULT_EMBEDDER, settings, {})
    return opened.fingerprint if opened else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("work", nargs="?", choices=("run", "table"), default="run", help="default: run, then table")
    parser.add_argument("--data", type=Path, help=f"folder of the data sets (default: {DATA_VARIABLE}, ../shared/data)")
    parser.add_argument("--evals", type=Path, default=PROJECT / "evals", help="where the record is written")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table is written")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
