"""`eval`: how well routes are, on a dataset with known answers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from waygraph.api.cli.options import AsJson, Invocation, invocation, offer_texts, with_option_groups
from waygraph.api.cli.render.output import note, show
from waygraph_lab.cli.agents import agents
from waygraph_lab.cli.history import history
from waygraph_lab.cli.measurement import (
    Output,
    StageOptions,
    about_run,
    choices,
    refuse_files,
    remark_on_failures,
    until_failure,
    write_error,
)

if TYPE_CHECKING:
    from waygraph_lab.datasets.trials import Bench
    from waygraph_lab.evaluation.dataset import Dataset
    from waygraph_lab.evaluation.record import Record
    from waygraph_lab.evaluation.run import Grid, Trial


class DefaultGroup(TyperGroup):
    """A group whose first command needs no name: `waygraph eval DIR` is `waygraph eval run DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        has_name = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if has_name or not args else [next(iter(self.commands)), *args])


evaluate = typer.Typer(
    cls=DefaultGroup, no_args_is_help=True, help="Measure routing on a dataset: `waygraph eval DIR`."
)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A dataset: agents.jsonl and queries.jsonl, or a known one.")
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run judges, keeps and costs."""

    set_size: Annotated[
        int, typer.Option(min=0, max=20, help="Judge the first so many as a set, beside what a walk selects.")
    ] = 0
    at_once: Annotated[int, typer.Option(min=1, help="Queries at a time that a model is asked for.")] = 1
    lines: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a line a query here. What FILE holds already is not asked again."),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what the models would cost.")] = False


@evaluate.command()
@with_option_groups
def run(
    context: typer.Context,
    folder: Folder,
    *,
    recipe: Annotated[list[str] | None, typer.Option(help="Again for more. Default: hybrid.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="questions, steps or united. Default: questions, and steps if there are.")
    ] = None,
    weights: Annotated[list[str] | None, typer.Option(metavar="AGENT,TOOL", help="In place of the recipe's.")] = None,
    k: Annotated[list[float] | None, typer.Option(help="Of every leg.")] = None,
    depth: Annotated[list[int] | None, typer.Option(help="Candidates a leg.")] = None,
    texts: Annotated[list[str] | None, offer_texts("{}.")] = None,
    with_embedder: Annotated[list[str] | None, typer.Option(metavar="SPEC", help="Again for more.")] = None,
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    tasks: Annotated[
        int, typer.Option(min=0, help="At most so many questions, drawn by a seed; 0: all.", show_default=True)
    ] = 0,
    stages: StageOptions,
    options: RunOptions,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Route every query of a dataset and compare with what is right.

    waygraph eval my-dataset --recipe hybrid --recipe paper

    Every combination of the options is tried. A query whose walk or reranker fails counts 0, and is reported.
    """
    from waygraph.registry.routing.recipes import DEFAULT_RECIPE, TAXONOMY
    from waygraph_lab.datasets.read_dataset import read_dataset
    from waygraph_lab.datasets.trials import named_recipes
    from waygraph_lab.evaluation.dataset import BYS
    from waygraph_lab.evaluation.run import Grid

    command = invocation(context)
    refuse_files(output, options.lines)
    dataset = read_dataset(folder, command.settings)
    dataset = dataset.draw(tasks, split=split) if tasks else dataset
    _remark_on_missing(dataset)
    grid = Grid(
        recipes=named_recipes(
            recipe or [TAXONOMY.name if stages.walk else DEFAULT_RECIPE],
            rerank=stages.rerank,
            walk=stages.walk,
            mode=stages.mode,
            steps_by=stages.by_steps,
        ),
        bys=choices("--by", by, BYS) or dataset.usual_bys(split=split) or ("questions",),
        weights=[_weights(pair) for pair in weights or ()] or (None,),
        ks=k or (None,),
        depths=depth or (None,),
        texts=texts or (None,),
        embedders=with_embedder or (command.embedder,),
        split=split,
    )
    trials = grid.trials()
    with _bench(command, stages, options) as bench:
        if options.dry_run:
            _show_estimates(bench, dataset, trials, as_json)
        else:
            _measure(bench, dataset, trials, grid, output, as_json)


evaluate.command()(agents)
evaluate.command()(history)


def _remark_on_missing(dataset: "Dataset") -> None:
    known = {each.id for entry in dataset.catalogue.entries for each in entry.entities}
    golds = [set[str]().union(*each.need.gold, *each.need.gold_tools) for each in dataset.questions]
    if missing := sum(1 for gold in golds if gold - known):
        note(f"{missing} queries name as right what is not there: hidden, waiting or gone, which counts as missed")


@contextmanager
def _bench(command: Invocation, stages: StageOptions, options: RunOptions) -> "Iterator[Bench]":
    """Raises UnknownName, InvalidSetting for the taxonomy, InvalidDataset for the lines."""
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.datasets.trials import Bench
    from waygraph_lab.evaluation.answer_lines import AnswerLines

    settings = command.settings
    lines = AnswerLines(options.lines) if options.lines else None
    bench = Bench(
        settings=settings,
        environ=os.environ,
        watching=progress_bar,
        tree=stages.tree(command, settings),
        lines=lines,
        at_once=options.at_once,
        set_size=options.set_size,
    )
    try:
        yield bench
    finally:
        if lines and not options.dry_run:
            lines.close()
            note(f"{lines.kept} queries were not asked again; the lines are in {options.lines}")


def _show_estimates(bench: "Bench", dataset: "Dataset", trials: "Sequence[Trial]", as_json: bool) -> None:
    from waygraph_lab.cli import shapes, views

    show(list(bench.estimates(dataset, trials)), shapes.estimates_json, views.view_estimates, as_json)


def _measure(  # noqa: PLR0917 - what the command has
    bench: "Bench",
    dataset: "Dataset",
    trials: "Sequence[Trial]",
    grid: "Grid",
    output: Path | None,
    as_json: bool,
) -> None:
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.evaluation.record import record_of, summary_of

    _note_estimate(bench, dataset, trials)
    outcomes, failure = until_failure(bench.outcomes(dataset, trials))
    record = record_of(dataset, outcomes, about_run())
    _remark_on_words(record)
    remark_on_failures(record)
    _remark(grid)
    unwritten = write_error(record, output) if output else None
    show(summary_of(record), shapes.evaluation_json, views.view_evaluation, as_json)
    if error := failure or unwritten:
        raise error


def _note_estimate(bench: "Bench", dataset: "Dataset", trials: "Sequence[Trial]") -> None:
    """What the models will cost, where one is asked."""
    from waygraph.registry.model.errors import InvalidSetting
    from waygraph_lab.evaluation.asking import estimate_text

    try:
        estimates = [*bench.estimates(dataset, [trial for trial in trials if trial.is_paid])]
    except InvalidSetting as error:
        note(f"no estimate: {error}")
        return
    if any(each.calls or each.kept for each in estimates):
        note(estimate_text(estimates))


@evaluate.command()
def diff(
    one: Annotated[Path, typer.Argument(metavar="A", help="A record: what `waygraph eval -o FILE` wrote.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    metric: Annotated[str, typer.Option(help="By which queries are compared, such as Recall@5.")] = "nDCG@5",
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Queries shown, won and lost each.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show which queries B answers better than A, and which worse, with the votes."""
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.evaluation.compare import differences
    from waygraph_lab.evaluation.record import read_record

    first, second = (read_record(path, with_queries=True) for path in (one, other))
    remark_on_failures(first, second)
    found = differences(first, second, metric)
    show(found, shapes.differences, partial(views.differences, limit=limit), as_json)


Records = Annotated[list[Path], typer.Argument(metavar="RECORD…", help="What `waygraph eval -o FILE` wrote.")]


@evaluate.command()
def table(
    files: Records,
    *,
    metric: Annotated[list[str] | None, typer.Option(help="Such as Recall@5. Again for more.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="questions, steps or united. Default: all.")] = None,
    against: Annotated[str, typer.Option(metavar="METHOD", help="Whom others are tested by. Default: the first.")] = "",
    tools: Annotated[bool, typer.Option("--tools", help="Only how well tools were ranked, not agents.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print records as Markdown tables: methods against metrics, with intervals and significance.

    waygraph eval table before.json after.json --metric Recall@5 --against paper
    """
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.evaluation.compare import SHOWN, tabulate
    from waygraph_lab.evaluation.dataset import BYS

    found = tabulate(
        _named_records(files),
        metrics=metric or SHOWN,
        bys=choices("--by", by, BYS),
        against=against,
        levels=("tools",) if tools else ("agents", "tools"),
    )
    if not found:
        note("none of these records holds such outcomes")
    show(found, shapes.tables, views.tables, as_json)


@evaluate.command()
def plot(
    files: Records,
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where the pictures are written.")],
    form: Annotated[str, typer.Option("--format", help="svg or png.")] = "svg",
    as_json: AsJson = False,
) -> None:
    """Draw records: recall by K, recall by weights, and quality against latency.

    waygraph eval plot before.json after.json --to pictures

    Needs matplotlib, the extra `plots` of waygraph-lab.
    """
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.evaluation.compare import tabulate
    from waygraph_lab.evaluation.plots import RECALLS, Form, draw

    (chosen,) = choices("--format", [form], get_args(Form))
    drawn = draw(tabulate(_named_records(files), metrics=RECALLS), to, chosen)
    show(drawn, shapes.plots_json, views.view_plots, as_json)


def _named_records(files: Sequence[Path]) -> "list[tuple[str, Record]]":
    from waygraph_lab.evaluation.record import read_record

    named = [(path.stem, read_record(path)) for path in files]
    remark_on_failures(*(record for _, record in named))
    return named


def _weights(pair: str) -> tuple[float, float]:
    """Raises BadParameter."""
    try:
        agent, tool = map(float, pair.split(","))
    except ValueError:
        raise typer.BadParameter(f"{pair!r} is not two numbers, as in 1.5,1", param_hint="'--weights'") from None
    return agent, tool


def _remark_on_words(record: "Record") -> None:
    """That recipes which need a model had none."""
    from waygraph.registry.index.search_index import VECTOR_LEGS

    wordless = [
        outcome["recipe"]["name"]
        for outcome in record["outcomes"]
        if not outcome["embedder"] and any(use["leg"] in VECTOR_LEGS for use in outcome["recipe"]["legs"])
    ]
    if wordless:
        note(f"{', '.join(dict.fromkeys(wordless))} searched by words only: there was no model")


def _remark(grid: "Grid") -> None:
    for recipe, texts in grid.unfit:
        note(f"{recipe.name} is not tried over {texts} texts: it is made for {recipe.texts} ones")
    for recipe in grid.without_k:
        note(f"{recipe.name} is not varied by --k: it merges scores, and has none")
