"""`learn`: models and counts from data with known answers."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import LAB, AsJson, LazyCommand, LazyGroup, invocation
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Aside, Block, Fields, print_raw, show
from waygraph.registry.model import shapes
from waygraph.registry.model.transitions import LearningReport
from waygraph.registry.operators.transition_counts import forget_transitions, learn_transitions


class _Learn(LazyGroup):
    lazy = {  # noqa: RUF012 - never changed
        "embedder": LazyCommand("learn embedder", "Fine-tune an embedder on requests with known tools.", package=LAB),
        "ranker": LazyCommand("learn ranker", "Learn to order the best candidates (LambdaMART).", package=LAB),
        "suspicion": LazyCommand("learn suspicion", "Learn to score suspicious sentences.", package=LAB),
        "transitions": LazyCommand("learn:transitions", "Count which tool is called after which."),
        "remove": LazyCommand("learn:remove", "Remove the counts of which tool was called after which."),
        "export": LazyCommand("learn:export", "Write the counts, a JSON object a line, for `learn transitions`."),
    }


learn = typer.Typer(cls=_Learn, no_args_is_help=True, help="Learn from data with known answers.")


@learn.callback()
def _() -> None:
    """Learn from data with known answers."""


def transitions(
    context: typer.Context,
    files: Annotated[
        list[Path],
        Argument(metavar="FILE…", help="Folders of conversations, audits of a service, or what `learn export` wrote."),
    ],
    *,
    split: Annotated[str, Option(metavar="NAME", help="Only conversations of this split.")] = "",
    as_json: AsJson = False,
) -> None:
    """Count which tool is called after which. Requests with a history are routed by it.

    waygraph learn transitions audit.jsonl

    Counts add up: a file that is learned twice counts twice. No argument, text or caller is kept. What tells of tools
    that the registry does not hold is left out.
    """
    from waygraph.ingest.conversations import read_call_counts
    from waygraph.registry.model import clock, shapes

    options = invocation(context)
    settings = options.settings()
    counts = [each for file in files for each in read_call_counts(file, settings, clock.now(), split=split)]
    with options.open_own() as registry:
        registry.status()  # what is not there is not made
        result = registry.change(lambda session: learn_transitions(session, counts))
    show(result, shapes.shape, _view_learned, as_json)


def _view_learned(result: LearningReport) -> Iterator[Block]:
    yield Fields.of(result, "transitions, revision")
    if result.unknown:
        yield Aside(f"{len(result.unknown)} agents and tools are not in this registry, such as {result.unknown[0]}")


def remove(context: typer.Context, as_json: AsJson = False) -> None:
    """Remove the counts of which tool was called after which."""
    with invocation(context).open_own() as registry:
        registry.status()
        result = registry.change(forget_transitions)
    show(result, shapes.shape, views.write, as_json)


def export(context: typer.Context, as_json: AsJson = False) -> None:
    """Write the counts, a JSON object a line, for `learn transitions`."""
    from waygraph.registry.graph.read import read_transitions

    with invocation(context).open_own() as registry:
        counts = [asdict(each) for each in registry.read(read_transitions)]
    if as_json:
        show(counts, list, lambda _: (), as_json)
    else:
        print_raw("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in counts))
