"""`ingest`: sources into the registry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.commands.opening import Connect, Env, Header, Namespace, OAuth, Policy, Since, SourceKind, opening
from waygraph.api.cli.dashes import after_dashes
from waygraph.api.cli.invocation import Invocation, invocation
from waygraph.api.cli.options import AsJson, TextForm
from waygraph.api.cli.shown.output import show

if TYPE_CHECKING:
    from waygraph.api.cli.shown.pages import Outcome
    from waygraph.ingest.ingestion import Ingestion
    from waygraph.ingest.sources.opening import Opening


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

    from waygraph.api.cli.commands.intake import remark
    from waygraph.api.cli.shown import change_views, shapes
    from waygraph.ingest.ingestion import Ingestion

    told, command = invocation(context), after_dashes(context)
    found = _found(told, all_of_them=yes) if discover else []
    wanted = [*(given or ()), *found]
    if discover and not wanted and not command:
        return
    _refuse_unnamed(len(wanted) + bool(command), source)
    read = partial(
        opening,
        told.settings(),
        os.environ,
        source=source,
        namespace=namespace,
        kind=kind,
        headers=header,
        env=env,
        oauth=oauth,
        since=since,
        connect=connect,
    )
    take = partial(Ingestion, policy=policy, texts=texts, dry_run=dry_run, allow_mass_removal=allow_mass_removal)
    done = _outcomes(told, _Asked(wanted, command, questions, questions_by, dry_run), read, take)
    show(done, shapes.ingest, change_views.ingest, as_json)
    remark(done)
    if any(outcome.failed for outcome in done):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which sources, and the questions that their tools are to have."""

    given: Sequence[str]
    command: Sequence[str]
    questions: int
    questions_by: str
    dry_run: bool


def _found(told: Invocation, *, all_of_them: bool) -> list[str]:
    import os

    from waygraph.api.cli.commands.discovering import chosen_configs

    return chosen_configs(told.settings(), os.environ, all_of_them=all_of_them)


def _refuse_unnamed(sources: int, name: str) -> None:
    """Raises BadParameter for no source, and for several under one name."""
    if not sources:
        raise typer.BadParameter("name a source, or a command after --", param_hint="'SOURCE'")
    if name and sources > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")


def _outcomes(
    told: Invocation, asked: _Asked, read: "Callable[..., Opening]", take: "Callable[..., Ingestion]"
) -> "list[Outcome]":
    """`read` and `take` have all of the options, and lack what lives as long as the intake: who asks the servers, and
    who writes questions."""
    import os

    from waygraph.api.cli.commands.intake import asking, outcomes, refuse_other_texts
    from waygraph.api.cli.shown.progress import progress_bar
    from waygraph.api.cli.shown.servers_asked import asking_servers
    from waygraph.ingest.sources.opening import refuse_unused

    settings = told.settings()
    if asked.questions:
        told.own_place(settings)
    with (
        asking(asked.questions, asked.questions_by, settings, os.environ, dry_run=asked.dry_run) as author,
        told.open() as registry,
        asking_servers(settings) as ask,
        progress_bar("Embedding", settings.progress_after_s) as progress,
    ):
        ingestion = take(opening=read(ask=ask), asking=author)
        refuse_unused(asked.given, asked.command, ingestion.opening)
        refuse_other_texts(registry, ingestion.texts)
        return list(outcomes(ingestion, registry, asked.given, asked.command, progress))
