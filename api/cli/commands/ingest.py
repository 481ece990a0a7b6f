"""`ingest`: sources into the registry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.commands.source_options import (
    Connect,
    Env,
    Header,
    Namespace,
    OAuth,
    Policy,
    Since,
    SourceKind,
    Start,
    opening,
)
from waygraph.api.cli.options import AsJson, Invocation, after_dashes, invocation
from waygraph.api.cli.render.cli_json import Outcome
from waygraph.api.cli.render.output import complain, note, show
from waygraph.ingest.pipeline import Asking, Ingestion, open_given
from waygraph.ingest.sources.server_names import name_of_command, printable_source
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.model import validation
from waygraph.registry.model.errors import MassRemoval, SourceError, WaygraphError
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

if TYPE_CHECKING:
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
    start: Start = False,
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
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would change, and change nothing. Asks no server and no language model.",
        ),
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

    from waygraph.api.cli.render import cli_json, operation_views
    from waygraph.ingest.pipeline import Ingestion

    options, command = invocation(context), after_dashes(context)
    settings = options.settings()
    configs = _find_sources(options, all_of_them=yes) if discover else []
    sources = [*(given or ()), *configs]
    if discover and not sources and not command:
        return
    _refuse_unnamed(len(sources) + bool(command), source)
    read = partial(
        opening,
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
        start=start,
    )
    take = partial(Ingestion, policy=policy, texts=texts, dry_run=dry_run, allow_mass_removal=allow_mass_removal)
    results = _outcomes(options, settings, _Intake(sources, command, questions, questions_by, dry_run), read, take)
    show(results, cli_json.ingest, operation_views.ingest, as_json)
    remark(results)
    if any(outcome.is_failure for outcome in results):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Intake:
    """Which sources, and the questions that their tools are to have."""

    sources: Sequence[str]
    command: Sequence[str]
    questions: int
    questions_by: str
    dry_run: bool


def _find_sources(options: Invocation, *, all_of_them: bool) -> list[str]:
    import os

    from waygraph.api.cli.commands.source_options import chosen_configs

    return chosen_configs(options.settings(), os.environ, all_of_them=all_of_them)


def _refuse_unnamed(sources: int, name: str) -> None:
    """Raises BadParameter for no source, and for several under one name."""
    if not sources:
        raise typer.BadParameter("name a source, or a command after --", param_hint="'SOURCE'")
    if name and sources > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")


def _outcomes(
    options: Invocation,
    settings: Settings,
    intake: _Intake,
    read: "Callable[..., Opening]",
    take: "Callable[..., Ingestion]",
) -> "list[Outcome]":
    """`read` and `take` have all of the options, and lack what lives as long as the intake: who asks the servers, and
    who writes questions."""
    import os

    from waygraph.api.cli.render.progress import asking_servers, progress_bar
    from waygraph.ingest.sources.opening import refuse_unused

    if intake.questions:
        options.own_place(settings)
    with (
        asking(intake.questions, intake.questions_by, settings, os.environ, dry_run=intake.dry_run) as author,
        options.open(settings) as registry,
        asking_servers(settings) as ask,
        progress_bar("Embedding", settings.progress_after_s) as progress,
    ):
        ingestion = take(opening=read(registry=registry.store.place, ask=ask), asking=author)
        refuse_unused(intake.sources, intake.command, ingestion.opening)
        refuse_other_texts(registry, ingestion.texts)
        return list(outcomes(ingestion, registry, intake.sources, intake.command, progress))


@contextmanager
def asking(
    count: int, spec: str, settings: Settings, environ: Mapping[str, str], *, dry_run: bool
) -> Iterator[Asking | None]:
    """None where no questions are to be made: a dry run pays no language model. Raises InvalidSetting."""
    if not count:
        yield None
        return
    from waygraph.ingest.manifest.questions import TEMPLATES, open_author

    with closing(open_author(spec, settings, environ)) as author:
        if dry_run and spec != TEMPLATES:
            note("a dry run asks no language model: tools are compared without the questions that it would make up")
            yield None
        else:
            yield Asking(count=count, author=author)


def outcomes(
    ingestion: Ingestion, registry: Registry, sources: Sequence[str], command: Sequence[str], progress: Progress
) -> Iterator[Outcome]:
    """An outcome for each source, several for an export. Ends with the one that the registry itself refused."""
    named_sources: list[tuple[str, str | Sequence[str]]] = [(printable_source(text), text) for text in sources]
    if command:
        named_sources.append((name_of_command(command), command))
    for name, text in named_sources:
        try:
            for result in ingestion.ingest(registry, open_given(text, ingestion.opening), progress):
                yield Outcome(name, report=result.report, without_questions=result.without_questions)
        except (SourceError, MassRemoval) as error:
            yield Outcome(name, error=str(error))
            ingestion.note_unreadable(registry, text, error)
        except WaygraphError as error:
            yield Outcome(name, error=str(error))
            return


def refuse_other_texts(registry: Registry, texts: TextForm | None) -> None:
    """Before any source is read. Raises InvalidSetting if the registry exists and embeds other ones."""
    if texts is not None and registry.store.exists:
        validation.refuse_other_texts(texts, registry.status().state.texts)


def remark(outcomes: Sequence[Outcome]) -> None:
    """On stderr: which sources failed and why, what reports say beside (once), and that records were rejected."""
    notices = set[str]()
    for outcome in outcomes:
        if outcome.report is None:
            complain(outcome.error)
            continue
        if (notice := outcome.report.notice) not in notices:
            note(notice)
            notices.add(notice)
        if lacking := outcome.without_questions:
            note(f"no questions were made up for {lacking} {'tool' if lacking == 1 else 'tools'} in {outcome.source}")
        if count := len(outcome.report.changes.rejected):
            text = f"{count} {'record was' if count == 1 else 'records were'} rejected in {outcome.source}"
            (complain if outcome.is_failure else note)(f"{text}, and none was taken" if outcome.is_failure else text)
