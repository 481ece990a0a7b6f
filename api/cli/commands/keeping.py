"""`export` and `doctor`: take the registry along, and see whether it is well."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from waygraph.api.cli.invocation import Invocation, invocation
from waygraph.api.cli.options import AsJson
from waygraph.api.cli.shown.output import note, print_raw, show

if TYPE_CHECKING:
    from waygraph.registry.doctor.findings import Finding

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
    from waygraph.api.cli.shown import operating_views, shapes
    from waygraph.api.cli.shown.pages import Exported
    from waygraph.registry.errors import StorageFailed
    from waygraph.registry.machine.atomic import write_named
    from waygraph.registry.storage.store import is_part_of

    told = invocation(context)
    output = None if output == STANDARD_OUTPUT else output
    if output and is_part_of(output, told.place(told.settings())):
        raise StorageFailed(f"{output} is of the registry itself, which would be lost: name another file")
    with told.open() as registry:
        content = registry.export(form)
    size_bytes = len(content.encode())
    if output:
        write_named(output, content)
        show(Exported(form, size_bytes, path=str(output)), shapes.exported, operating_views.exported, as_json)
    elif as_json:
        show(Exported(form, size_bytes, content=content), shapes.exported, operating_views.exported, as_json)
    else:
        print_raw(content)


def doctor(
    context: typer.Context,
    deep: Annotated[bool, typer.Option("--deep", help="Compare every record of the index with the graph.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the registry is well; exit 1 and advice if not."""
    from waygraph.api.cli.shown import operating_views, shapes

    findings = _findings(invocation(context), deep)
    show(findings, shapes.findings, operating_views.findings, as_json)
    unwell = [finding for finding in findings if not finding.ok]
    if unwell:
        note(f"{len(unwell)} of {len(findings)} checks failed")
        raise typer.Exit(1)


def _findings(told: Invocation, deep: bool) -> "list[Finding]":
    """What the examination found; the one reason why there was none, if the registry cannot be opened."""
    import os

    from waygraph.registry.doctor.examine import examine_at
    from waygraph.registry.doctor.findings import Finding
    from waygraph.registry.errors import WaygraphError

    settings = told.settings()
    if told.embedder:
        settings = replace(settings, embedder=told.embedder)
    place = told.own_place(settings)
    try:
        return examine_at(place, deep=deep, settings=settings, environ=os.environ)
    except WaygraphError as error:
        return [Finding(check="registry", ok=False, detail=str(error))]
