"""`migrate`: a whole registry from one place to another."""

from typing import Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import AsJson
from waygraph.api.cli.shown.output import note, show


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
    from waygraph.api.cli.shown import operating_views, shapes
    from waygraph.api.cli.shown.progress import progress_bar
    from waygraph.registry.migration.migrate import migrate_at

    told = invocation(context)
    settings = told.settings()
    told.own_place(settings)
    with progress_bar("Copying", settings.progress_after_s) as progress:
        done = migrate_at(source, target, settings, progress)
    show(done, shapes.migrated, operating_views.migrated, as_json)
    if not done.copied:
        note("the copy was there already; it was compared and left as it is")
