"""`eval`: how well routes are, on a dataset with known answers."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from waygraph.api.cli.options import AsJson, Invocation, TextForm, invocation
from waygraph.api.cli.render.output import note, show

if TYPE_CHECKING:
    from waygraph.registry.model.errors import StorageFailed
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


@evaluate.command()
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
    texts: Annotated[list[str] | None, typer.Option(help="contextual, plain, concat, tdwa-1 or tdwa-2.")] = None,
    with_embedder: Annotated[list[str] | None, typer.Option(metavar="SPEC", help="Again for more.")] = None,
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    tasks: Annotated[
        int, typer.Option(min=0, help="At most so many questions, drawn by a seed; 0: all.", show_default=True)
    ] = 0,
    rerank: Annotated[
        str,
        typer.Option(
            metavar="SPEC", help="openai:MODEL, cross-encoder:MODEL or ranker:FILE puts the best 20 in order."
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the whole record here, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Route every query of a dataset and compare with what is right.

    waygraph eval my-dataset --recipe hybrid --recipe paper

    Every combination of the options is tried.
    """
    from waygraph.registry.routing.recipes import DEFAULT_RECIPE, recipe_named
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.datasets.read_dataset import read_dataset
    from waygraph_lab.evaluation.dataset import BYS
    from waygraph_lab.evaluation.record import refuse_unwritable, summary_of
    from waygraph_lab.evaluation.run import Grid

    if output == Path("-"):
        raise typer.BadParameter("expected a file; --json prints what a table shows", param_hint="'--output'")
    told = invocation(context)
    dataset = read_dataset(folder, told.settings())
    dataset = dataset.draw(tasks, split=split) if tasks else dataset
    grid = Grid(
        recipes=[recipe_named(name, rerank=rerank) for name in recipe or [DEFAULT_RECIPE]],
        bys=_choices("--by", by, BYS) or dataset.usual_bys(split=split) or ("questions",),
        weights=[_weights(pair) for pair in weights or ()] or (None,),
        ks=k or (None,),
        depths=depth or (None,),
        texts=_choices("--texts", texts, _FORMS) or (None,),
        embedders=with_embedder or (told.embedder,),
        split=split,
    )
    trials = grid.trials()
    if output:
        refuse_unwritable(output)
    record = _record(told, dataset, trials)
    _remark_on_words(record)
    _remark(grid)
    unwritten = _write_error(record, output) if output else None
    show(summary_of(record), shapes.evaluation_json, views.view_evaluation, as_json)
    if unwritten:
        raise unwritten


def _write_error(record: "Record", output: Path) -> "StorageFailed | None":
    """Why it could not be written: what was measured is shown all the same."""
    from waygraph.registry.model.errors import StorageFailed
    from waygraph_lab.evaluation.record import write_record

    try:
        write_record(record, output)
    except StorageFailed as error:
        return error
    note(f"the record is in {output}")
    return None


@evaluate.command()
def agents(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A dataset with right tools, and an mcp.json of its agents' servers.")
    ],
    *,
    model: Annotated[list[str], typer.Option(metavar="MODEL", help="Of the endpoint. Again for more.")],
    judge: Annotated[str, typer.Option(metavar="MODEL", help="Who scores answers. Default: nobody does.")] = "",
    recipe: Annotated[
        list[str] | None, typer.Option(help="How tools are found. Default: lexical, tools and hybrid.")
    ] = None,
    rerank: Annotated[
        str,
        typer.Option(
            metavar="SPEC", help="openai:MODEL, cross-encoder:MODEL or ranker:FILE puts the best 20 in order."
        ),
    ] = "",
    texts: Annotated[str, typer.Option(help="contextual, plain, concat, tdwa-1 or tdwa-2.")] = "contextual",
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    tasks: Annotated[int, typer.Option(min=1, help="So many queries, spread evenly over all.")] = 50,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Tools a search.")] = 5,
    turns: Annotated[int, typer.Option(min=1, help="Answers of the model a task.")] = 12,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks at a time.")] = 4,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the whole record here, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a language model find and call tools, and measure its calls and answers.

    waygraph eval agents scalemcp --model gpt-4o-mini --judge gpt-4o --split daily

    The endpoint is that of OPENAI_BASE_URL and OPENAI_API_KEY. The servers of DIR/mcp.json must be running.
    """
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.datasets.folder import server_config
    from waygraph_lab.datasets.read_dataset import read_dataset
    from waygraph_lab.datasets.trials import AgentBench, agent_trials, choose_tasks
    from waygraph_lab.evaluation.agents import agent_record, without_tasks
    from waygraph_lab.evaluation.record import refuse_unwritable

    (form,) = _choices("--texts", [texts], _FORMS)
    trials = agent_trials(
        model, recipe or (), rerank=rerank, texts=form, judge=judge, limit=limit, turns=turns, environ=os.environ
    )
    told = invocation(context)
    settings = told.settings()
    servers, dataset = server_config(folder), read_dataset(folder, settings)
    asked = choose_tasks(dataset, split=split, count=tasks)
    if output:
        refuse_unwritable(output)
    bench = AgentBench(
        settings=settings,
        environ=os.environ,
        embedder=told.embedder,
        at_once=at_once,
        watching=partial(progress_bar, after_s=settings.progress_after_s),
    )
    record = agent_record(dataset, bench.outcomes(dataset, servers, asked, trials), about_run())
    unwritten = _write_error(record, output) if output else None
    show(without_tasks(record), shapes.evaluation_json, views.agents_evaluated, as_json)
    if unwritten:
        raise unwritten


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

    whole = partial(read_record, with_queries=True)
    found = differences(whole(one), whole(other), metric)
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
        bys=_choices("--by", by, BYS),
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

    Needs matplotlib: pip install 'waygraph-lab[plots]'.
    """
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.evaluation.compare import tabulate
    from waygraph_lab.evaluation.plots import RECALLS, Form, draw

    (chosen,) = _choices("--format", [form], get_args(Form))
    drawn = draw(tabulate(_named_records(files), metrics=RECALLS), to, chosen)
    show(drawn, shapes.plots_json, views.view_plots, as_json)


def _named_records(files: Sequence[Path]) -> "list[tuple[str, Record]]":
    from waygraph_lab.evaluation.record import read_record

    return [(path.stem, read_record(path)) for path in files]


_FORMS: tuple[TextForm, ...] = get_args(TextForm)


def _choices[T: str](option: str, given: list[str] | None, known: tuple[T, ...]) -> tuple[T, ...]:
    """Raises BadParameter."""
    for name in given or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint=f"'{option}'")
    return tuple(value for value in known if value in (given or ()))


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


def _record(told: Invocation, dataset: "Dataset", trials: "Sequence[Trial]") -> "Record":
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.datasets.trials import Bench
    from waygraph_lab.evaluation.record import record_of

    settings = told.settings()
    bench = Bench(
        settings=settings, environ=os.environ, watching=partial(progress_bar, after_s=settings.progress_after_s)
    )
    return record_of(dataset, bench.outcomes(dataset, trials), about_run())


def about_run() -> dict[str, str]:
    """How a record came to be: command, date, version, commit."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    from waygraph_lab.evaluation.record import source_commit

    return {
        "command": " ".join(["waygraph", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "waygraph": version("waygraph"),
        "commit": source_commit(),
    }
