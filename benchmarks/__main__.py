"""`python -m benchmarks [NAME…]`: runs benchmarks, prints a record of each and writes it to evals/."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from waygraph.registry.settings import load_settings

from benchmarks import abstention, ingest_speed, livemcpbench, memory, process_speed, route_speed
from benchmarks.record import PROJECT, Result, as_record, write_record
from benchmarks.world import World

BENCHMARKS: Mapping[str, Callable[[World], Result]] = {
    livemcpbench.NAME: livemcpbench.run,
    abstention.NAME: abstention.run,
    route_speed.NAME: route_speed.run,
    process_speed.NAME: process_speed.run,
    ingest_speed.NAME: ingest_speed.run,
    memory.NAME: memory.run,
}
DATA_VARIABLE = "WAYGRAPH_BENCH_DATA"


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    options = _parser().parse_args(arguments)
    world = _world(options, environ)
    for name in options.names or BENCHMARKS:
        result = BENCHMARKS[name](world)
        if result.skipped:
            print(f"{name}: skipped, {result.skipped}", file=sys.stderr)
            continue
        command = " ".join(["python -m benchmarks", name, *(["--quick"] if options.quick else [])])
        record = as_record(result, command)
        print(json.dumps(record, indent=1, ensure_ascii=False))
        write_record(record, options.evals)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS))
    parser.add_argument("--data", type=Path, help=f"folder of the data sets (default: {DATA_VARIABLE}, ../shared/data)")
    parser.add_argument("--evals", type=Path, default=PROJECT / "evals", help="where records are written")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes (20,000 tools)")
    return parser


def _world(options: argparse.Namespace, environ: Mapping[str, str]) -> World:
    settings = load_settings(environ)
    data = options.data or Path(environ.get(DATA_VARIABLE) or PROJECT.parent / "shared" / "data")
    return World(
        settings=replace(settings, embedder=""),
        environ=environ,
        data=data,
        cache=settings.cache_path / "benchmarks",
        quick=options.quick,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
