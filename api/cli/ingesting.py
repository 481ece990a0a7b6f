"""`ingest`: sources into the registry."""

from typing import Annotated

import typer

from waygraph.api.cli.dashes import after_dashes
from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.opening import Connect, Env, Header, Namespace, OAuth, Policy, Since, SourceKind, opening
from waygraph.api.cli.options import AsJson, TextForm
from waygraph.api.cli.output import show


def ingest(
    context: typer.Context,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Files, folders, globs or addresses; `-` is standard input."),
    ] = None,
    *,
    source: Annotated[
        str,
        typer.Option(
            "--source", metavar="NAME", help="The source's name. Default: its absolute path; of a service HOST:PATH."
        ),
    ] = "",
    namespace: Namespace = "",
    kind: SourceKind = "",
    discover: Annotated[
        bool, typer.Option("--discover", help="Look for the configurations of MCP hosts here, and ask which to use.")
    ] = False,
    header: Header = None,
    env: Env = None,
    oauth: OAuth = False,
    since: Since = "",
    connect: Connect = None,
    policy: Policy = None,
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
    yes: Annotated[bool, typer.Option("--yes", help="Use all that --discover finds, without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the registry to what files, addresses and running servers say of agents and tools.

    waygraph ingest catalog/ mcp.json https://tools.example.com/mcp

    waygraph ingest -- uvx mcp-server-time
    """
    import os

    from waygraph.api.cli import shapes, views
    from waygraph.api.cli.discovering import chosen_configs
    from waygraph.api.cli.intake import Intake, asking, refuse_other_texts, remark
    from waygraph.api.cli.progress import progress_bar
    from waygraph.api.cli.servers_asked import asking_servers

    told = invocation(context)
    settings = told.settings()
    command = after_dashes(context)
    wanted = [*(given or ()), *(chosen_configs(settings, os.environ, all_of_them=yes) if discover else ())]
    if not wanted and not command:
        if discover:
            return
        raise typer.BadParameter("name a source, or a command after --", param_hint="'SOURCE'")
    if source and len(wanted) + bool(command) > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")
    if questions:
        told.own_place(settings)
    with (
        asking(questions, questions_by, settings, os.environ, dry_run=dry_run) as asked,
        told.open() as registry,
        asking_servers(settings) as ask,
        progress_bar("Embedding", settings.progress_after_s) as progress,
    ):
        refuse_other_texts(registry, texts)
        intake = Intake(
            opening=opening(
                settings,
                os.environ,
                source=source,
                namespace=namespace,
                kind=kind,
                headers=header,
                env=env,
                oauth=oauth,
                since=since,
                connect=connect,
                ask=ask,
            ),
            policy=policy,
            texts=texts,
            asking=asked,
            dry_run=dry_run,
            allow_mass_removal=allow_mass_removal,
        )
        outcomes = list(intake.outcomes(registry, wanted, command, progress))
    show(outcomes, shapes.ingest, views.ingest, as_json)
    remark(outcomes)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)
