"""`ingest`: sources into the registry."""

from typing import Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import AsJson, TextForm
from waygraph.api.cli.output import show


def ingest(
    context: typer.Context,
    given: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Files, folders or globs; `-` is standard input.")
    ],
    *,
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="NAME", help="The source's name. Default: its absolute path; of a service HOST:PATH."
        ),
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Put before an id that another agent already has.")
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            "--kind", metavar="KIND", help="What the files are, such as catalogue or tools-list. Default: as they look."
        ),
    ] = "",
    texts: Annotated[
        TextForm | None, typer.Option("--texts", help="The texts to embed, for a new registry. Default: contextual.")
    ] = None,
    questions: Annotated[
        int,
        typer.Option(
            "--questions",
            metavar="N",
            min=0,
            help="Make up questions for each tool, till it has N: it is found by them.",
        ),
    ] = 0,
    questions_by: Annotated[
        str, typer.Option("--questions-by", metavar="SPEC", help="Who writes them: templates, or openai:MODEL.")
    ] = "templates",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, and change nothing. Asks no language model.")
    ] = False,
    allow_mass_removal: Annotated[
        bool, typer.Option("--allow-mass-removal", help="Let a source remove more than half of its agents.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the registry to what files say of agents and tools.

    waygraph ingest catalog/ servers.json --dry-run
    """
    if source and len(given) > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")
    import os

    from waygraph.api.cli import shapes, views
    from waygraph.api.cli.intake import Intake, asking, refuse_other_texts, remark
    from waygraph.api.cli.progress import progress_bar

    told = invocation(context)
    settings = told.settings()
    if questions:
        told.own_place(settings)
    with (
        asking(questions, questions_by, settings, os.environ, dry_run=dry_run) as asked,
        told.open() as registry,
        progress_bar("Embedding", settings.progress_after_s) as progress,
    ):
        refuse_other_texts(registry, texts)
        intake = Intake(
            settings=settings,
            source=source,
            namespace=namespace,
            kind=kind,
            texts=texts,
            asking=asked,
            dry_run=dry_run,
            allow_mass_removal=allow_mass_removal,
        )
        outcomes = list(intake.outcomes(registry, given, progress))
    show(outcomes, shapes.ingest, views.ingest, as_json)
    remark(outcomes)
    if any(outcome.report is None for outcome in outcomes):
        raise typer.Exit(1)
