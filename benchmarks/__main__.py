"""`python -m benchmarks [NAME…]`: runs benchmarks, prints a record of each and writes it to evals/."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import (
    a2x,
    abstention,
    agent_as_a_graph,
    clear_requests,
    default_recipe,
    graph_server,
    ingest_speed,
    lines_speed,
    livemcpbench,
    memory,
    process_speed,
    route_speed,
    scalemcp,
    suspicion,
)
from benchmarks.ablations import run as ablations
from benchmarks.gateway import run as gateway
from benchmarks.live import run as live
from benchmarks.record import PROJECT, Result, as_record, write_record
from benchmarks.service import run as service
from benchmarks.table import Written, write
from benchmarks.world import DATA_VARIABLE, MIXED_MINUTES, World, data_folder
from waygraph.registry.model.settings import load_settings

BENCHMARKS: Mapping[str, Callable[[World], Result]] = {
    livemcpbench.NAME: livemcpbench.run,
    agent_as_a_graph.NAME: agent_as_a_graph.run,
    a2x.NAME: a2x.run,
    abstention.NAME: abstention.run,
    clear_requests.NAME: clear_requests.run,
    default_recipe.NAME: default_recipe.run,
    ablations.NAME: ablations.run,
    scalemcp.NAME: scalemcp.run,
    route_speed.NAME: route_speed.run,
    process_speed.NAME: process_speed.run,
    ingest_speed.NAME: ingest_speed.run,
    lines_speed.NAME: lines_speed.run,
    memory.NAME: memory.run,
    suspicion.NAME: suspicion.run,
}
ON_SERVERS: Mapping[str, Callable[[World], Result]] = {
    **{name: partial(graph_server.run, name) for name in graph_server.NAMES},
    service.NAME: service.run,
    live.NAME: live.run,
    gateway.NAME: gateway.run,
}
"""They start servers, take their time, and run only when named."""
NAMES = (*BENCHMARKS, *ON_SERVERS)
TABLE = "table"
PAGES = Written(
    page=PROJECT / "evals" / "README.md", readme=PROJECT / "README.md", figures=PROJECT / "docs" / "figures"
)
"""What `table` writes."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    options = _parser().parse_args(arguments)
    world = _world(options, environ)
    for name in options.names or [*BENCHMARKS, TABLE]:
        if name == TABLE:
            write(options.evals, NAMES, PAGES)
        else:
            _measure(name, world, options.evals)
    return 0


def _measure(name: str, world: World, evals: Path) -> None:
    result = {**BENCHMARKS, **ON_SERVERS}[name](world)
    if result.skipped:
        print(f"{name}: skipped, {result.skipped}", file=sys.stderr)
        return
    record = as_record(result, " ".join(["python -m benchmarks", name, *_told(world)]))
    print(json.dumps(record, indent=1, ensure_ascii=False))
    write_record(record, evals)


def _told(world: World) -> list[str]:
    """The options that a record's command names: those that make its figures others."""
    minutes = [] if world.minutes == MIXED_MINUTES else [f"--minutes {world.minutes:g}"]
    return [*minutes, *(["--quick"] if world.quick else [])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = [*NAMES, TABLE]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        type=_one_of(known),
        help=f"{', '.join(known)}; default: all but {', '.join(ON_SERVERS)}",
    )
    parser.add_argument("--data", type=Path, help=f"folder of the data sets (default: {DATA_VARIABLE}, ../shared/data)")
    parser.add_argument("--evals", type=Path, default=PROJECT / "evals", help="where records are written")
    parser.add_argument("--minutes", type=float, default=MIXED_MINUTES, help="of mixed load, for `service`")
    parser.add_argument("--quick", action="store_true", help="small catalogues and few rounds: shows that it runs")
    return parser


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def name(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is not known; known: {', '.join(known)}")
        return text

    return name


def _world(options: argparse.Namespace, environ: Mapping[str, str]) -> World:
    told = load_settings(environ)
    settings = replace(told, embedder="")
    data = options.data or data_folder(environ)
    cache = settings.cache_path / "benchmarks"
    return World(
        settings=settings,
        environ=environ,
        data=data,
        cache=cache,
        quick=options.quick,
        configured=told.embedder,
        minutes=options.minutes,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
