"""`export`, `doctor` and others: take the registry along, see whether it is well, relate its tools."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waygraph.api.cli.options import AsJson, Invocation, invocation
from waygraph.api.cli.render.output import note, print_raw, show

if TYPE_CHECKING:
    from waygraph.registry.storage.candidate_graph import Nearness
    from waygraph.registry.storage.integrity.findings import Finding


STANDARD_OUTPUT = Path("-")


def export(
    context: typer.Context,
    form: Annotated[Literal["json", "graphml", "html"], typer.Option("--format", help="What to write.")] = "json",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here. Default, and -: standard output."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the whole registry as JSON, GraphML or HTML.

    JSON can be ingested again, GraphML is for other graph programs, HTML to look at.
    """
    from waygraph.api.cli.render import operation_views
    from waygraph.api.cli.render.cli_json import Export
    from waygraph.registry.model import shapes
    from waygraph.registry.model.errors import StorageFailed
    from waygraph.registry.model.files import write_named
    from waygraph.registry.storage.location import is_part_of

    options = invocation(context)
    output = None if output == STANDARD_OUTPUT else output
    if output and is_part_of(output, options.place(options.settings())):
        raise StorageFailed(f"{output} is of the registry itself, which would be lost: name another file")
    with options.open() as registry:
        content = registry.operator.export(form)
    size_bytes = len(content.encode())
    if output:
        write_named(output, content)
        result = Export(format=form, size_bytes=size_bytes, path=str(output))
    else:
        result = Export(format=form, size_bytes=size_bytes, content=content)
    if output or as_json:
        show(result, shapes.shape, operation_views.view_export, as_json)
    else:
        print_raw(content)


def doctor(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Compare every record of the index with the graph.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the registry is well; exit 1 and advice if not."""
    from waygraph.api.cli.render import cli_json, operation_views

    findings = _findings(invocation(context), deep)
    show(findings, cli_json.findings, operation_views.findings, as_json)
    unwell = [finding for finding in findings if not finding.ok]
    if unwell:
        note(f"{len(unwell)} of {len(findings)} checks failed")
        raise typer.Exit(1)


def _findings(options: Invocation, deep: bool) -> "list[Finding]":
    """What the examination found; the one reason why there was none, if the registry cannot be opened."""
    import os

    from waygraph.registry.model.errors import WaygraphError
    from waygraph.registry.storage.integrity.examine import examine_at
    from waygraph.registry.storage.integrity.findings import Finding

    settings = options.settings()
    if options.embedder:
        settings = replace(settings, embedder=options.embedder)
    place = options.own_place(settings)
    try:
        return examine_at(place, deep=deep, settings=settings, environ=os.environ)
    except WaygraphError as error:
        return [Finding(check="registry", ok=False, detail=str(error))]


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
    from waygraph.registry.storage.candidate_graph import Nearness

    any_set = (above, nearest, mean_degree) != (None, None, None)
    _link(context, Nearness(above=above, nearest=nearest, mean_degree=mean_degree if any_set else 8.0), as_json)


@graph.command()
def unlink(context: typer.Context, as_json: AsJson = False) -> None:
    """Remove all edges between near tools."""
    _link(context, None, as_json)


def _link(context: typer.Context, nearness: "Nearness | None", as_json: bool) -> None:
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes
    from waygraph.registry.storage.candidate_graph import link_tools

    with invocation(context).open_own() as registry:
        show(link_tools(registry, nearness), shapes.shape, operation_views.view_numbers, as_json)


def migrate(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A registry: a file or a server; it is only read.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="A file or a server's database that holds no registry yet.")
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a registry to another file or server, vectors included.

    waygraph migrate tools.grafeo neo4j://host

    Nothing is embedded anew. The copy counts as a registry once it is found to be the same; if it is cut short, the
    same command goes on with it.
    """
    from waygraph.api.cli.render import cli_json, operation_views
    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.registry.storage.migrate import migrate_at

    options = invocation(context)
    settings = options.settings()
    options.own_place(settings)
    with progress_bar("Copying", settings.progress_after_s) as progress:
        migration = migrate_at(source, target, settings, progress)
    show(migration, cli_json.migration_json, operation_views.view_migration, as_json)
    if not migration.copied:
        note("the copy was there already; it was compared and left as it is")


Spec = Annotated[
    str,
    typer.Argument(metavar="SPEC", help="Such as onnx:BAAI/bge-small-en-v1.5. Default: --embedder, or Waygraph's own."),
]

model = typer.Typer(no_args_is_help=True, help="Get, list and find embedding models.")


@model.command()
def pull(context: typer.Context, spec: Spec = "", as_json: AsJson = False) -> None:
    """Fetch a model from the Hugging Face hub into the cache."""
    from waygraph.registry.embedding.weights import pull as fetch

    options = invocation(context)
    model_spec = _choose_model(spec, options)
    _show_place(model_spec, fetch(model_spec, options.settings()), as_json)


@model.command("list")
def list_models(context: typer.Context, as_json: AsJson = False) -> None:
    """List the models on this machine."""
    from waygraph.api.cli.render import cli_json, operation_views
    from waygraph.registry.embedding.weights import list_models

    show(list_models(invocation(context).settings()), cli_json.models, operation_views.models, as_json)


@model.command()
def path(context: typer.Context, spec: Spec = "", as_json: AsJson = False) -> None:
    """Print the folder of a model."""
    from waygraph.registry.embedding.weights import locate

    options = invocation(context)
    model_spec = _choose_model(spec, options)
    _show_place(model_spec, locate(model_spec, options.settings()), as_json)


def _choose_model(spec: str, options: Invocation) -> str:
    from waygraph.registry.embedding.factory import default_spec

    return spec or options.wanted_embedder or default_spec()


def _show_place(spec: str, folder: Path, as_json: bool) -> None:
    from waygraph.api.cli.render import cli_json, operation_views

    show((spec, folder), cli_json.model_place, operation_views.model_place, as_json)
