"""`model`: the files of embedding models on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from waygraph.api.cli.invocation import Invocation, invocation
from waygraph.api.cli.options import AsJson
from waygraph.api.cli.quick import QuickCommand, QuickGroup
from waygraph.api.cli.shown.output import show

Spec = Annotated[
    str,
    typer.Argument(metavar="SPEC", help="Such as onnx:BAAI/bge-small-en-v1.5. Default: --embedder, or Waygraph's own."),
]

model = typer.Typer(cls=QuickGroup, no_args_is_help=True, help="Get, list and find embedding models.")


@model.command(cls=QuickCommand)
def pull(context: typer.Context, spec: Spec = "", as_json: AsJson = False) -> None:
    """Fetch a model from the Hugging Face hub into the cache."""
    from waygraph.registry.embedding.weights import pull as fetch

    told = invocation(context)
    wanted = _wanted(spec, told)
    _show_place(wanted, fetch(wanted, told.settings()), as_json)


@model.command("list", cls=QuickCommand)
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models on this machine."""
    from waygraph.api.cli.shown import operating_views, shapes
    from waygraph.registry.embedding.weights import installed

    show(installed(invocation(context).settings()), shapes.models, operating_views.models, as_json)


@model.command(cls=QuickCommand)
def path(context: typer.Context, spec: Spec = "", as_json: AsJson = False) -> None:
    """Print the folder of a model."""
    from waygraph.registry.embedding.weights import locate

    told = invocation(context)
    wanted = _wanted(spec, told)
    _show_place(wanted, locate(wanted, told.settings()), as_json)


def _wanted(spec: str, told: Invocation) -> str:
    from waygraph.registry.settings import DEFAULT_EMBEDDER

    return spec or told.wanted_embedder or DEFAULT_EMBEDDER


def _show_place(spec: str, folder: Path, as_json: bool) -> None:
    from waygraph.api.cli.shown import operating_views, shapes

    show((spec, folder), shapes.model_place, operating_views.model_place, as_json)
