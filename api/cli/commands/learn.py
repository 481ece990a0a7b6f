"""`learn`: models and counts from data with known answers."""

import json
from dataclasses import asdict

import typer

from waygraph.api.cli.options import LAB, Invocation, LazyCommand, LazyGroup
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import print_raw
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


def remove(options: Invocation) -> None:
    """Remove the counts of which tool was called after which."""
    with options.open_own() as registry:
        registry.status()
        result = registry.change(forget_transitions)
    options.show(result, views.write)


def export(options: Invocation) -> None:
    """Write the counts, a JSON object a line, for `learn transitions`."""
    from waygraph.registry.graph.read import read_transitions

    with options.open_own() as registry:
        counts = [asdict(each) for each in registry.read(read_transitions)]
    if options.as_json:
        options.show(counts, lambda _: (), list)
    else:
        print_raw("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in counts))
