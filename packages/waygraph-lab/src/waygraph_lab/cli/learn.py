"""`learn embedder`, `learn ranker`, `learn suspicion` and `learn transitions`: models and counts from data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import Aside, Block, Fields, note, show
from waygraph.registry.model.transitions import LearningReport
from waygraph_lab.cli.measurement import about_run


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
    epochs: Annotated[float, typer.Option(min=0.01, help="How often each pair is read.")] = 3.0,
    rate: Annotated[float, typer.Option(min=1e-7, max=1e-2, help="How far a step goes.")] = 4e-5,
    layers: Annotated[int, typer.Option(min=0, help="Train so many of the upper layers; 0: all.")] = 0,
    most_requests: Annotated[int, typer.Option(min=1, help="Of each data set, drawn by the seed.")] = 1_250,
    siblings: Annotated[
        bool, typer.Option("--siblings/--no-siblings", help="Other tools of the same agent are wrong answers too.")
    ] = True,
    first_needs: Annotated[
        bool, typer.Option("--first-needs", help="Of several right tools of a request learn the first alone.")
    ] = False,
    mix: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Where a former run has written: its weights count as much. Repeat."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where torch trains: cpu, or cuda.")] = "cpu",
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

    Of a data set without requests, requests that are made up for its tools are learned. A run that was stopped goes on.
    The card in DIR/card.json says what became better and worse. Needs torch, the extra `train` of waygraph-lab.
    """
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.training.embedder_training import Training
    from waygraph_lab.training.embedder_trials import learn_embedder

    settings = invocation(context).settings
    card = learn_embedder(
        folders,
        develop or (),
        base=base,
        training=Training(
            seed=seed,
            epochs=epochs,
            rate=rate,
            layers=layers,
            most_requests=most_requests,
            siblings=siblings,
            first_needs=first_needs,
            bfloat16=bfloat16,
        ),
        strengths=strength or (0.5, 0.75, 1.0),
        target=to,
        settings=settings,
        environ=os.environ,
        about=about_run(),
        mixed=mix or (),
        device=device,
        watching=progress_bar,
        report=_report,
    )
    if card["strength"]:
        note(f"the model is in {to}: waygraph --embedder onnx:{to.resolve()} …")
    else:
        note(f"no model is written: it falls too far somewhere, or gains nothing; {to}/card.json tells more")
    show(card, shapes.card_json, views.view_card, as_json)


def _report(step: int, steps: int, loss: float, pairs_a_second: float) -> None:
    note(f"step {step} of {steps}: loss {loss:.3f}, {pairs_a_second:.1f} pairs/s")


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
    with the same embedder. Needs lightgbm, the extra `train` of waygraph-lab. Using it does not.
    """
    import os

    from waygraph.api.cli.render.progress import progress_bar
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.training.ranker_training import RankerTraining
    from waygraph_lab.training.ranker_trials import card_path, learn_ranker

    told = invocation(context)
    settings = told.settings
    card = learn_ranker(
        folders,
        training=RankerTraining(seed=seed, most_requests=most_requests),
        target=output,
        embedder=told.embedder,
        settings=settings,
        environ=os.environ,
        about=about_run(),
        watching=progress_bar,
    )
    if card["version"]:
        note(f"{card['version']} is in {output}: waygraph route --rerank ranker:{output} …")
    else:
        note(f"no ranker is written: none gains without falling somewhere; {card_path(output)} tells more")
    if card["worse"]:
        note("on data that it did not learn from, it falls beyond chance somewhere: see `worse` in the card")
    show(card, shapes.card_json, views.view_ranker_card, as_json)


def suspicion(
    context: typer.Context,
    sources: Annotated[
        list[Path], typer.Argument(metavar="SOURCE…", help="Data sets and catalogues of real tools, taken as harmless.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the layer is written.")],
    corpus: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Collected attacks and harmless tools, as JSON lines.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other made-up attacks.")] = 20_261_126,
    as_json: AsJson = False,
) -> None:
    """Learn to score sentences of tools: how much each reads like an order to the model.

    waygraph learn suspicion toucan docker_mcp_registry.json --corpus dev.jsonl -o all-MiniLM-L6-v2.json

    The layer is for one embedder: --embedder, or the default one. Thresholds are chosen on servers that it did not
    learn from.
    """
    import os

    from waygraph.registry.embedding.factory import OpenedEmbedders, default_spec
    from waygraph.registry.model.errors import InvalidSetting
    from waygraph.registry.model.files import write_atomically
    from waygraph_lab.cli import shapes, views
    from waygraph_lab.training.suspicion_training import layer_card, layer_content, learn_layer, read_real_tools

    choice = invocation(context)
    settings = choice.settings
    embedder = (
        OpenedEmbedders(settings, os.environ).open_for_documents(choice.embedder or default_spec(settings)).embedder
    )
    if embedder is None:
        raise InvalidSetting("a layer is learnt over vectors: --embedder none has none")
    layer, examples, _ = learn_layer(read_real_tools(sources, settings), corpus or (), embedder, seed)
    write_atomically(output, layer_content(layer))
    show(layer_card(layer, examples), shapes.card_json, views.view_layer_card, as_json)


def transitions(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Folders of conversations, audits of a service, or files of `learn export`."
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
    from waygraph.registry.model import clock, shapes
    from waygraph.registry.operators.transition_counts import learn_transitions
    from waygraph_lab.datasets.conversations import read_call_counts

    options = invocation(context)
    settings = options.settings
    counts = [each for file in files for each in read_call_counts(file, settings, clock.now(), split=split)]
    with options.open_own() as registry:
        registry.status()  # what is not there is not made
        result = registry.change(lambda session: learn_transitions(session, counts))
    show(result, shapes.shape, _view_learned, as_json)


def _view_learned(result: LearningReport) -> Iterator[Block]:
    yield Fields.of(result, "transitions, revision")
    if result.unknown:
        yield Aside(f"{len(result.unknown)} agents and tools are not in this registry, such as {result.unknown[0]}")
