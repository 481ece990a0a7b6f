"""`graph`: edges between tools whose vectors are near, as data for a router is made of them."""

from typing import Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import show
from waygraph.registry.model import shapes
from waygraph_lab.cli import views
from waygraph_lab.synthesis.candidate_graph import Nearness, link_tools

graph = typer.Typer(no_args_is_help=True, help="Make and remove edges between near tools.")


@graph.command()
def link(
    context: typer.Context,
    *,
    above: Annotated[float | None, typer.Option(help="All pairs of at least this cosine.")] = None,
    nearest: Annotated[int | None, typer.Option(help="Each tool with so many nearest ones.")] = None,
    mean_degree: Annotated[
        float | None, typer.Option(help="The closest pairs, so many a tool on average. Default: 8.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Link tools whose vectors are near, as (:Tool)-[:SIMILAR {cosine}]->(:Tool), in place of former edges.

    waygraph graph link --above .6

    An ingest removes the edges of tools that it changes. It makes none.
    """
    any_set = (above, nearest, mean_degree) != (None, None, None)
    _link(context, Nearness(above=above, nearest=nearest, mean_degree=mean_degree if any_set else 8.0), as_json)


@graph.command()
def unlink(context: typer.Context, as_json: AsJson = False) -> None:
    """Remove all edges between near tools."""
    _link(context, None, as_json)


def _link(context: typer.Context, nearness: Nearness | None, as_json: bool) -> None:
    with invocation(context).open_own() as registry:
        show(link_tools(registry, nearness), shapes.shape, views.numbers, as_json)
