"""`python -m benchmarks [NAME…]`: runs benchmarks, prints each figure beside its budget, writes records to evals/."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import (
    a2x,
    abstention,
    agent_as_a_graph,
    agent_routes,
    call_needs,
    clear_requests,
    code_rounds,
    default_recipe,
    embedders,
    end_to_end,
    findability,
    first_call,
    hidden_words,
    ingest_speed,
    livemcpbench,
    million,
    naming,
    neo4j_size,
    neo4j_speed,
    process_speed,
    questions,
    ranker,
    right_tool,
    route_ratio,
    route_speed,
    scalemcp,
    suspicion,
    taxonomy,
    token_table,
    tool_sets,
)
from benchmarks.endpoint import MODEL, SPEND, NeedsSpend, permitted_environ
from benchmarks.engines import benchmark as engines
from benchmarks.explorer import benchmark as explorer
from benchmarks.gateway import benchmark as gateway
from benchmarks.history import benchmark as history
from benchmarks.loop import benchmark as loop
from benchmarks.processes import ProcessFailed, ServerFailed
from benchmarks.record import IS_CLONE, PROJECT, Result, as_record, write_record
from benchmarks.service import benchmark as service
from benchmarks.service import ratio as service_ratio
from benchmarks.store import durability, scale
from benchmarks.tables import Pages, detail_tables, measures_table, read_records, tables, write_pages
from benchmarks.watch import benchmark as watch
from benchmarks.world import DATA_VARIABLE, World, data_folder
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, load_settings

BENCHMARKS: Mapping[str, Callable[[World], Result]] = {
    livemcpbench.NAME: livemcpbench.run,
    agent_as_a_graph.NAME: agent_as_a_graph.run,
    a2x.NAME: a2x.run,
    abstention.NAME: abstention.run,
    clear_requests.NAME: clear_requests.run,
    default_recipe.NAME: default_recipe.run,
    embedders.NAME: embedders.run,
    scalemcp.NAME: scalemcp.run,
    right_tool.NAME: right_tool.run,
    findability.NAME: findability.run,
    questions.NAME: questions.run,
    history.NAME: history.run,
    agent_routes.NAME: agent_routes.run,
    ranker.NAME: ranker.run,
    route_ratio.NAME: route_ratio.run,
    route_speed.NAME: route_speed.run,
    process_speed.NAME: process_speed.run,
    ingest_speed.NAME: ingest_speed.run,
    process_speed.MEMORY: process_speed.run_memory,
    suspicion.NAME: suspicion.run,
    taxonomy.NAME: taxonomy.run,
    tool_sets.NAME: tool_sets.run,
    call_needs.NAME: call_needs.run,
    token_table.NAME: token_table.run,
    naming.NAME: naming.run,
    hidden_words.NAME: hidden_words.run,
}
ON_SERVERS: Mapping[str, Callable[[World], Result]] = {
    **{name: partial(neo4j_speed.run, name) for name in neo4j_speed.NAMES},
    **{name: partial(neo4j_size.run, name) for name in neo4j_size.SIZES},
    service.NAME: service.run,
    service_ratio.NAME: service_ratio.run,
    explorer.NAME: explorer.run,
    first_call.NAME: first_call.run,
    watch.NAME: watch.run,
    gateway.NAME: gateway.run,
    loop.NAME: loop.run,
    code_rounds.NAME: code_rounds.run,
    end_to_end.NAME: end_to_end.run,
    engines.NAME: engines.run,
    scale.NAME: scale.run,
    million.NAME: million.run,
    durability.NAME: durability.run,
}
"""They start servers, need what is not installed or take their time, and run only when named."""
NAMES = (*BENCHMARKS, *ON_SERVERS)
QUALITY = (
    livemcpbench.NAME,
    agent_as_a_graph.NAME,
    a2x.NAME,
    abstention.NAME,
    clear_requests.NAME,
    default_recipe.NAME,
    embedders.NAME,
    scalemcp.NAME,
    right_tool.NAME,
    findability.NAME,
    questions.NAME,
    history.NAME,
    agent_routes.NAME,
    ranker.NAME,
    suspicion.NAME,
    taxonomy.NAME,
    tool_sets.NAME,
    call_needs.NAME,
    naming.NAME,
)
"""How good answers are, whatever they take."""
ALL_QUALITY = "quality"
TABLE = "table"
LIST = "list"
"""What each benchmark measures, a line each."""
SIZES, ROUNDS, BASE = "--sizes", "--rounds", "--base"
JOBS, LINES = "--jobs", "--lines"
DETAILS = "details"
"""First of the names: the records of the others are printed, and nothing is measured."""
PAGES = Pages(page=PROJECT / "evals" / "README.md", readme=PROJECT / "README.md", figures=PROJECT / "docs" / "figures")
"""What `table` writes."""


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    options = options_parser().parse_args(arguments)
    if options.names[:1] == [DETAILS]:
        print(detail_tables(read_records(options.evals, options.names[1:] or NAMES)))
        return 0
    names = [*_names(options.names or [*BENCHMARKS, TABLE])]
    if LIST in names:
        print("\n".join(_descriptions()))
        return 0
    if not IS_CLONE:
        print(f"records are read and written in {options.evals}", file=sys.stderr)
    if names != [TABLE]:
        try:
            environ = permitted_environ(environ, model=options.model, spend=options.spend)
        except NeedsSpend as error:
            print(error, file=sys.stderr)
            return 2
    world = _world(options, environ)
    started, failed = time.perf_counter(), False
    for name in names:
        seconds = time.perf_counter() - started
        if options.budget_s and seconds > options.budget_s:
            print(f"{name}: not begun, {seconds:.0f} s of {options.budget_s:g} s are over", file=sys.stderr)
            return 1
        if name == TABLE:
            _write_table(options.evals)
            continue
        try:
            _measure(name, world, options.evals)
            print(f"{name}: ended after {time.perf_counter() - started:.0f} s", file=sys.stderr)
        except (WaygraphError, ProcessFailed, ServerFailed) as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failed else 0


def _write_table(evals: Path) -> None:
    """Into the pages of a clone; where there is none, to standard output."""
    if IS_CLONE:
        write_pages(evals, NAMES, PAGES)
    else:
        print(tables(read_records(evals, NAMES)))


def _descriptions() -> Iterator[str]:
    """Of each benchmark the first line of its module."""
    for name, measure in {**BENCHMARKS, **ON_SERVERS}.items():
        module = getattr(measure, "func", measure).__module__
        first = (sys.modules[module].__doc__ or "").splitlines()[0]
        yield f"{name}: {first}{'' if name in BENCHMARKS else ' Only when named.'}"


def _names(names: Iterable[str]) -> Iterator[str]:
    """Each benchmark by its own name."""
    for name in names:
        yield from QUALITY if name == ALL_QUALITY else (name,)


def _measure(name: str, world: World, evals: Path) -> None:
    result = {**BENCHMARKS, **ON_SERVERS}[name](world)
    if result.skipped:
        print(f"{name}: skipped, {result.skipped}", file=sys.stderr)
        return
    options = ["--quick"] if world.quick else []
    options += [MODEL, world.model, SPEND] if world.model else []
    options += [SIZES, ",".join(map(str, world.sizes))] if world.sizes else []
    options += [ROUNDS, str(world.rounds)] if world.rounds else []
    options += [BASE, world.base] if world.base else []
    chosen = [f"WAYGRAPH_EMBEDDER={world.configured}"] if world.configured else []
    record = as_record(result, " ".join([*chosen, "python -m benchmarks", name, *options]))
    print(measures_table([record]))
    write_record(record, evals)


def options_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = [*NAMES, ALL_QUALITY, LIST, TABLE, DETAILS]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        type=_one_of(known),
        help=f"{', '.join(known)}; default: all but {', '.join(ON_SERVERS)}",
    )
    parser.add_argument("--data", type=Path, help=f"folder of the data sets (default: {DATA_VARIABLE}, ../shared/data)")
    parser.add_argument("--evals", type=Path, default=PROJECT / "evals", help="where records are written")
    parser.add_argument("--budget-s", type=float, default=0, help="begin none after so many seconds; 0: no limit")
    parser.add_argument(
        MODEL,
        default="",
        help=f"openai:MODEL, for {agent_routes.NAME}, {taxonomy.NAME}, {loop.NAME} and {end_to_end.NAME}, "
        f"or several with commas between; needs {SPEND}",
    )
    parser.add_argument(JOBS, type=int, default=4, help="queries at a time that a model is asked for")
    parser.add_argument(
        LINES,
        type=Path,
        help="folder of files with a line a query that a model was asked for, which is not asked again "
        "(default: lines, beside the records)",
    )
    parser.add_argument(SPEND, action="store_true", help="endpoints may be asked, which costs money")
    parser.add_argument(SIZES, type=_sizes, default=(), help=f"numbers of tools, such as 500,100000, for {scale.NAME}")
    parser.add_argument(
        ROUNDS,
        type=int,
        default=0,
        help=f"changes in a row, for {scale.NAME}; kills and flipped bits, for {durability.NAME}",
    )
    parser.add_argument(BASE, default="", help=f"a commit that is measured beside this checkout, by {scale.NAME}")
    parser.add_argument("--quick", action="store_true", help="small catalogues and few rounds: shows that it runs")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(part) for part in text.split(",")}))


def _one_of(known: Sequence[str]) -> Callable[[str], str]:
    def name(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is not known; known: {', '.join(known)}")
        return text

    return name


def _world(options: argparse.Namespace, environ: Mapping[str, str]) -> World:
    settings = load_settings(environ)
    return World(
        settings=replace(settings, embedder=DEFAULT_EMBEDDER),
        environ=environ,
        data=options.data or data_folder(environ),
        cache=settings.cache_path / "benchmarks",
        quick=options.quick,
        configured=settings.embedder,
        model=options.model,
        sizes=options.sizes,
        rounds=options.rounds,
        base=options.base,
        jobs=max(1, options.jobs),
        lines=options.lines or options.evals / "lines",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
