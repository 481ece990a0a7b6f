"""`eval history`: how much the turns before a request tell a router (ToolACE-MCP, section 4.5 and Figure 4)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import show
from waygraph_lab.cli.measurement import Output, about_run, refuse_files, remark_on_failures, until_failure, write_error

if TYPE_CHECKING:
    from waygraph_lab.evaluation.run import Trial


def history(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Conversations: agents.jsonl and trajectories.jsonl.")],
    *,
    recipe: Annotated[str, typer.Option(help="How candidates are found.")] = "hybrid",
    rerank: Annotated[
        str, typer.Option(metavar="SPEC", help="The router, openai:MODEL, puts the best 20 in order.")
    ] = "",
    without: Annotated[
        str, typer.Option(metavar="SPEC", help="The router that was trained without history. Default: the same.")
    ] = "",
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    tasks: Annotated[int, typer.Option(min=0, help="At most so many calls, drawn by a seed; 0: all.")] = 0,
    at_once: Annotated[int, typer.Option(min=1, help="Queries at a time that a model is asked for.")] = 1,
    lines: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep a line a query, and do not ask again what has one."),
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Route each call of conversations with all turns before it, as a gateway knows them, and with none.

    waygraph eval history played --rerank openai:router --without openai:router-no-history

    Both rows are tested against the first. `generate router-data --no-history` makes data for the second router.
    """
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.datasets.read_dataset import read_dataset
    from waygraph_lab.datasets.trials import Bench
    from waygraph_lab.evaluation.answer_lines import AnswerLines
    from waygraph_lab.evaluation.compare import tabulate
    from waygraph_lab.evaluation.record import record_of

    command = invocation(context)
    refuse_files(output, lines)
    trials = list(_trials(recipe, rerank, without or rerank, split, command.embedder))
    dataset = read_dataset(folder, command.settings)
    dataset = dataset.draw(tasks, split=split) if tasks else dataset
    kept = AnswerLines(lines) if lines else None
    bench = Bench(settings=command.settings, environ=os.environ, watching=progress_bar, at_once=at_once, lines=kept)
    try:
        outcomes, failure = until_failure(bench.outcomes(dataset, trials))
    finally:
        if kept:
            kept.close()
    record = record_of(dataset, outcomes, about_run())
    remark_on_failures(record)
    unwritten = write_error(record, output) if output else None
    found = tabulate([("history", record)], against=trials[0].name, levels=("agents", "tools"))
    show(found, shapes.tables, views.tables, as_json)
    if error := failure or unwritten:
        raise error


def _trials(recipe: str, rerank: str, without: str, split: str, embedder: str) -> "Iterator[Trial]":
    """Raises UnknownRecipe."""
    from waygraph.registry.routing.recipes import recipe_named
    from waygraph.registry.writer import DEFAULT_TEXTS
    from waygraph_lab.evaluation.dataset import Asker
    from waygraph_lab.evaluation.run import Trial

    routers: dict[Asker, tuple[str, str]] = {
        "service": (rerank, "all turns"),
        "gateway": (rerank, "as a gateway"),
        "stranger": (without, "no history"),
    }
    for asker, (router, label) in routers.items():
        chosen = recipe_named(recipe, rerank=router)
        texts = chosen.texts or DEFAULT_TEXTS
        yield Trial(
            recipe=chosen, texts=texts, embedder=embedder, split=split, label=f"{chosen.name}, {label}", asker=asker
        )
