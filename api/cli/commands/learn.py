"""`learn`: models from data with known answers."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from waygraph.api.cli.commands.evaluate import about_run
from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import note, print_raw, show

learn = typer.Typer(no_args_is_help=True, help="Learn from data with known answers.")


@learn.callback()
def _() -> None:
    """Learn from data with known answers."""


@learn.command()
def embedder(
    context: typer.Context,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Data sets to learn from: requests with right agents or tools.")
    ],
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where the model is written; a folder of its own.")],
    develop: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A data set to choose the strength by, not to learn from. Repeat."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another model.")] = 20_261_125,
    epochs: Annotated[float, typer.Option(min=0.01, help="How often each pair is read.")] = 0.9,
    layers: Annotated[int, typer.Option(min=0, help="Train so many of the upper layers; 0: all.")] = 0,
    most_requests: Annotated[int, typer.Option(min=1, help="Of each data set, drawn by the seed.")] = 1_250,
    bfloat16: Annotated[
        bool, typer.Option("--bfloat16/--float32", help="Products in 16 bits, a third of the time on new processors.")
    ] = True,
    strength: Annotated[
        list[float] | None,
        typer.Option(min=0.01, max=1, help="How far to go from the base model. Repeat. Default: .5, .75 and 1."),
    ] = None,
    base: Annotated[
        str, typer.Option(metavar="SPEC", help="The model to begin with.")
    ] = "onnx:sentence-transformers/all-MiniLM-L6-v2",
    as_json: AsJson = False,
) -> None:
    """Fine-tune an embedder on requests whose right tools are known.

    waygraph learn embedder my-requests --to my-model --develop my-other-requests

    Of a data set without requests, template questions of its tools are learned. A run that was stopped goes on. The
    card in DIR/card.json says what became better and worse. Needs torch: pip install 'waygraph[train]'.
    """
    import os

    from waygraph.api.cli.render import cli_json, operation_views
    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.ingest.datasets.embedder_trials import learn_embedder
    from waygraph.registry.learning.embedder_training import Training

    settings = invocation(context).settings()
    card = learn_embedder(
        folders,
        develop or (),
        base=base,
        training=Training(seed=seed, epochs=epochs, layers=layers, most_requests=most_requests, bfloat16=bfloat16),
        strengths=strength or (0.5, 0.75, 1.0),
        target=to,
        settings=settings,
        environ=os.environ,
        about=about_run(),
        watching=partial(progress_bar, after_s=settings.progress_after_s),
        report=_report,
    )
    if card["strength"]:
        note(f"the model is in {to}: waygraph --embedder onnx:{to.resolve()} …")
    else:
        note(f"no model is written: at no strength it gains without falling somewhere; {to}/card.json tells more")
    show(card, cli_json.card_json, operation_views.view_card, as_json)


def _report(step: int, steps: int, loss: float, pairs_a_second: float) -> None:
    note(f"step {step} of {steps}: loss {loss:.3f}, {pairs_a_second:.1f} pairs/s")


@learn.command()
def ranker(
    context: typer.Context,
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Data sets to learn from: requests with right agents or tools.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the ranker is written.")],
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Another seed, another ranker.", show_default=True)
    ] = 20_261_125,
    most_requests: Annotated[int, typer.Option(min=1, help="Of each data set, drawn by the seed.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Learn to order the best candidates by the votes for them, the history and the catalogue (LambdaMART).

    waygraph learn ranker my-requests my-conversations -o mine.json

    Each data set is judged by trees that did not learn from it: mine.card.json has the figures. It serves registries
    with the same embedder. Needs lightgbm: pip install 'waygraph[train]'. Using it does not.
    """
    import os

    from waygraph.api.cli.render import cli_json, operation_views
    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.ingest.datasets.ranker_trials import card_path, learn_ranker
    from waygraph.registry.learning.ranker_training import RankerTraining

    told = invocation(context)
    settings = told.settings()
    card = learn_ranker(
        folders,
        training=RankerTraining(seed=seed, most_requests=most_requests),
        target=output,
        embedder=told.embedder,
        settings=settings,
        environ=os.environ,
        about=about_run(),
        watching=partial(progress_bar, after_s=settings.progress_after_s),
    )
    if card["version"]:
        note(f"{card['version']} is in {output}: waygraph route --rerank ranker:{output} …")
    else:
        note(f"no ranker is written: none gains without falling somewhere; {card_path(output)} tells more")
    if card["worse"]:
        note("on data that it did not learn from, it falls beyond chance somewhere: see `worse` in the card")
    show(card, cli_json.card_json, operation_views.view_ranker_card, as_json)


@learn.command()
def transitions(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Folders of conversations, audits of a service, or what `learn export` wrote."
        ),
    ],
    *,
    split: Annotated[str, typer.Option(metavar="NAME", help="Only conversations of this split.")] = "",
    as_json: AsJson = False,
) -> None:
    """Count which tool is called after which. Requests with a history are routed by it.

    waygraph learn transitions audit.jsonl

    Counts add up: a file that is learned twice counts twice. No argument, text or caller is kept. What tells of tools
    that the registry does not hold is left out.
    """
    from waygraph.api.cli.render import operation_views
    from waygraph.ingest.datasets.call_counts import read_call_counts
    from waygraph.registry.model import shapes
    from waygraph.registry.storage.embedded import now

    told = invocation(context)
    settings = told.settings()
    counts = [each for file in files for each in read_call_counts(file, settings, now(), split=split)]
    with told.open() as registry:
        registry.status()  # what is not there is not made
        learned = registry.change(
            lambda session: session.learn_transitions(
                counts, settings.learn_half_life_days, settings.max_transitions_kept
            )
        )
    show(learned, shapes.shape, operation_views.view_learned, as_json)


@learn.command()
def forget(context: typer.Context, as_json: AsJson = False) -> None:
    """Forget which tool was called after which."""
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        registry.status()
        written = registry.change(lambda session: session.forget_transitions())
    show(written, shapes.shape, operation_views.view_write, as_json)


@learn.command()
def export(context: typer.Context, as_json: AsJson = False) -> None:
    """Write the counts, a JSON object a line, for `learn transitions`."""
    import json
    from dataclasses import asdict

    from waygraph.registry.graph.read import read_transitions

    with invocation(context).open() as registry:
        counts = [asdict(each) for each in registry.read(read_transitions)]
    if as_json:
        show(counts, list, lambda _: (), as_json)
    else:
        print_raw("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in counts))
