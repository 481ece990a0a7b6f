"""`learn`: models and counts from data with known answers."""

import json
from dataclasses import asdict

import typer

from waygraph.api.cli.options import LAB, AsJson, LazyCommand, LazyGroup, invocation
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import print_raw, show
from waygraph.registry.model import shapes
from waygraph.registry.operators.transition_counts import forget_transitions


class _Learn(LazyGroup):
    lazy = {  # noqa: RUF012 - never changed
        "embedder": LazyCommand("learn embedder", "Fine-tune an embedder on requests with known tools.", package=LAB),
        "ranker": LazyCommand("learn ranker", "Learn to order the best candidates (LambdaMART).", package=LAB),
        "suspicion": LazyCommand("learn suspicion", "Learn to score suspicious sentences.", package=LAB),
        "transitions": LazyCommand("learn transitions", "Count which tool is called after which.", package=LAB),
        "remove": LazyCommand("learn:remove", "Remove the counts of which tool was called after which."),
        "export": LazyCommand("learn:export", "Write the counts, a JSON object a line, for `learn transitions`."),
    }


learn = typer.Typer(cls=_Learn, no_args_is_help=True, help="Learn from data with known answers.")


@learn.callback()
def _() -> None:
    """Learn from data with known answers."""


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
