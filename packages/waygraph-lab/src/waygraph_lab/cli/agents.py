"""`eval agents`: how well a language model works with tools that it has to find."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation, offer_texts, with_option_groups
from waygraph.api.cli.render.output import note, show
from waygraph_lab.cli.measurement import (
    Output,
    StageOptions,
    about_run,
    choices,
    refuse_files,
    until_failure,
    write_error,
)

if TYPE_CHECKING:
    from waygraph_lab.evaluation.record import Record


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """How a model works on its tasks: as `AgentTrial` has it, but for several noises."""

    texts: Annotated[str, offer_texts("{}.")] = "contextual"
    limit: Annotated[int, typer.Option(min=1, max=50, help="Tools a search.")] = 5
    turns: Annotated[int, typer.Option(min=1, help="Answers of the model a task.")] = 12
    surface: Annotated[
        list[str] | None,
        typer.Option(
            help="default: find_tools; router: route and execute; react: all tools in the prompt. Again for more."
        ),
    ] = None
    temperature: Annotated[float, typer.Option(min=0, max=2, help="Of the model, not of the judge.")] = 0.0
    runs: Annotated[int, typer.Option(min=1, help="So often is each task tried.")] = 1
    noise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NOISE",
            help="Tools beside the right ones: mutation, mutation:DIR, external:SOURCE or none. Again for more.",
        ),
    ] = None


@with_option_groups
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
    stages: StageOptions,
    terms: AgentOptions,
    split: Annotated[str, typer.Option(help="Only the queries of this split.")] = "",
    tasks: Annotated[int, typer.Option(min=1, help="So many queries, spread evenly over all.")] = 50,
    at_once: Annotated[int, typer.Option(min=1, help="Tasks at a time.")] = 4,
    lines: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a line a task here. What FILE holds already is not tried again."),
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Let a language model find and call tools, and measure its calls and answers.

    waygraph eval agents scalemcp --model gpt-4o-mini --judge gpt-4o --split daily

    The endpoint is that of OPENAI_BASE_URL and OPENAI_API_KEY. The servers of DIR/mcp.json must be running.
    A task whose model, walk or reranker fails counts 0, and is reported.
    """
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.registry.routing.recipes import HYBRID
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.datasets.folder import server_config
    from waygraph_lab.datasets.noise import NONE
    from waygraph_lab.datasets.read_dataset import read_dataset
    from waygraph_lab.datasets.trials import AgentBench, agent_trials, choose_tasks
    from waygraph_lab.evaluation.agents import SURFACES, AgentTrial, agent_record, attempt_of, without_tasks
    from waygraph_lab.evaluation.asking import KeptLines, estimate_text
    from waygraph_lab.evaluation.estimate import estimate_agents

    own = {name: value for name, value in vars(terms).items() if name not in ("noise", "surface")}
    like = AgentTrial(recipe=HYBRID, model=model[0], judge=judge, **own)
    trials = agent_trials(
        like,
        os.environ,
        models=model,
        recipes=recipe or (),
        noises=terms.noise or (NONE,),
        surfaces=choices("--surface", terms.surface, SURFACES) or ("default",),
        rerank=stages.rerank,
        walk=stages.walk,
        mode=stages.mode,
        steps_by=stages.by_steps,
    )
    command = invocation(context)
    settings = command.settings
    servers, dataset = server_config(folder), read_dataset(folder, settings)
    asked = choose_tasks(dataset, split=split, count=tasks)
    refuse_files(output, lines)
    kept = KeptLines(lines, attempt_of, "`waygraph eval agents --lines`") if lines else None
    tools = [tool for entry in dataset.catalogue.entries for tool in entry.tools]
    note(estimate_text([estimate_agents(trial, asked, tools) for trial in trials]))
    bench = AgentBench(
        settings=settings,
        environ=os.environ,
        embedder=command.embedder,
        at_once=at_once,
        watching=progress_bar,
        tree=stages.tree(command, settings),
        lines=kept,
    )
    try:
        outcomes, failure = until_failure(bench.outcomes(dataset, servers, asked, trials))
    finally:
        if kept:
            kept.close()
            note(f"{kept.kept} tasks were not tried again; the lines are in {lines}")
    record = agent_record(dataset, outcomes, about_run())
    _remark_on_tasks(record)
    unwritten = write_error(record, output) if output else None
    show(without_tasks(record), shapes.evaluation_json, views.agents_evaluated, as_json)
    if error := failure or unwritten:
        raise error


def _remark_on_tasks(record: "Record") -> None:
    for outcome in record["outcomes"]:
        name, asked = f"{outcome['model']}, {outcome['retrieval']}", outcome["asked"]
        for reason, count in outcome["failures"].items():
            note(f"{name}: {count} of {asked} tasks failed and count 0: {reason}")
        for reason, count in outcome["unjudged"].items():
            note(f"{name}: {outcome['judge']} did not judge {count} of {asked} tasks: {reason}")
