"""`ingest`: sources into the registry."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import (
    AllowMassRemoval,
    Invocation,
    NameOptions,
    Policy,
    ServerOptions,
    Texts,
    offer_texts,
    opening,
)
from waygraph.api.cli.render.output import Block, Cell, Table, complain, note, one_line
from waygraph.api.cli.render.progress import ask_servers, progress_bar
from waygraph.api.cli.render.views import flag_remarks
from waygraph.ingest.hosts.hosts import KnownConfig, title_of
from waygraph.ingest.manifest.questions import open_author
from waygraph.ingest.pipeline import Asking, Ingestion, open_given
from waygraph.ingest.sources.opening import name_of_command, printable_source, refuse_unused
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.model import shapes, validation
from waygraph.registry.model.changes import ChangeSet, SyncReport
from waygraph.registry.model.errors import MassRemoval, SourceError, WaygraphError
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

_POLICY_HELP = (
    "What becomes of changes: accept; hold what is changed or added after the first time till it is approved; strict: "
    "hold all. Default: as it was."
)
_TEXTS_HELP = "The texts to embed, for a new registry: {}. Default: contextual."


def ingest(
    options: Invocation,
    given: Annotated[
        Texts, Argument(metavar="SOURCE…", help="Files, folders, globs or addresses; `-` is standard input.")
    ] = None,
    *,
    source: Annotated[
        str, Option(metavar="NAME", help="The source's name. Default: its absolute path; of a service HOST:PATH.")
    ] = "",
    names: NameOptions,
    servers: ServerOptions,
    policy: Annotated[Policy | None, Option(help=_POLICY_HELP)] = None,
    texts: Annotated[str | None, offer_texts(_TEXTS_HELP)] = None,
    questions: Annotated[
        int, Option(metavar="N", min=0, help="Make up questions for each tool, till it has N: it is found by them.")
    ] = 0,
    questions_by: Annotated[str, Option(metavar="SPEC", help="Who writes them: openai:MODEL.")] = "",
    dry_run: Annotated[
        bool, Option(help="Say what would change, and change nothing. Asks no server and no language model.")
    ] = False,
    allow_mass_removal: AllowMassRemoval = False,
) -> None:
    """Bring the registry to what files, addresses and running servers say of agents and tools.

    waygraph ingest catalog/ mcp.json https://tools.example.com/mcp

    waygraph ingest -- uvx mcp-server-time
    """
    settings, command = options.settings, options.server_command
    sources = list(given or ())
    if not sources and not command:
        raise typer.BadParameter("name a source, or a command after --", param_hint="'SOURCE'")
    if source and len(sources) + bool(command) > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")
    if questions:
        options.own_place()
    with (
        asking(questions, questions_by, settings, os.environ, dry_run=dry_run) as author,
        options.open() as registry,
        progress_bar("Embedding") as progress,
    ):
        place = registry.store.place
        ask = partial(ask_servers, settings)
        how = opening(settings, os.environ, registry=place, names=names, servers=servers, source=source, ask=ask)
        refuse_unused(sources, command, how)
        if texts is not None and registry.store.exists:  # before any source is read
            validation.refuse_other_texts(texts, registry.status().state.texts)
        ingestion = Ingestion(
            opening=how,
            asking=author,
            policy=policy,
            texts=texts,
            dry_run=dry_run,
            allow_mass_removal=allow_mass_removal,
        )
        results = list(outcomes(ingestion, registry, sources, command, progress))
    options.show(results, _view_outcomes, _outcomes_json)
    remark(results)
    if any(outcome.is_failure for outcome in results):
        raise typer.Exit(1)


def is_chosen(config: KnownConfig, *, all_of_them: bool) -> bool:
    """What a project's author wrote is never started unasked."""
    label = one_line(f"{config.client}: {config.path}")
    servers = f"{config.servers} {'server' if config.servers == 1 else 'servers'}"
    if config.fault:
        note(f"{label} {config.fault}")
    elif config.gateways and not config.servers:
        note(f"{label}: not used, since it names nothing but Waygraph's own gateway")
    elif all_of_them and config.is_of_project:
        note(f"{label}, {servers}: not used, since it is of a project: without --yes you are asked")
    elif all_of_them:
        note(f"{label}, {servers}")
        return True
    elif not sys.stdin.isatty():
        note(f"{label}, {servers}: not used, since nobody can be asked here; --yes uses all")
    else:
        return typer.confirm(f"{label}, {servers}. Start them and ingest what they offer?", default=False, err=True)
    return False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source. `source` is the SOURCE as typed; without a `report` the `error` says why.

    `without_questions`: tools that its author of questions had no fit answer for.
    """

    source: str
    report: SyncReport | None = None
    error: str = ""
    without_questions: int = 0

    @property
    def is_failure(self) -> bool:
        """Also where there is a report of it, and each of its records was rejected."""
        return self.report is None or self.report.changes.took_nothing


@contextmanager
def asking(
    count: int, spec: str, settings: Settings, environ: Mapping[str, str], *, dry_run: bool
) -> Iterator[Asking | None]:
    """None where no questions are to be made: a dry run pays no language model. Raises InvalidSetting."""
    if not count:
        yield None
        return

    with closing(open_author(spec, settings, environ)) as author:
        if dry_run:
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


def _outcomes_json(outcomes: Sequence[Outcome]) -> shapes.Shape:
    return {
        "sources": [
            {"given": each.source, "error": each.error, "report": shapes.report(each.report) if each.report else None}
            for each in outcomes
        ]
    }


def _view_outcomes(outcomes: Sequence[Outcome]) -> Iterator[Block]:
    """The numbers of each source, then every change that has a name; created ones in a dry run only."""
    columns = ("source", "agents", "tools", "rejected", "embedded", "seconds", "revision", "place")
    names = [each.report.changes.source for each in outcomes if each.report]
    count = len(columns) if any(title_of(name) != name for name in names) else len(columns) - 1
    yield Table(columns[:count], [_numbers(each)[:count] for each in outcomes], spare=("place",))
    if changes := [row for each in outcomes for row in _named_changes(each)]:
        yield Table(columns=("change", "what", "detail"), rows=changes)
    if telling := [change for each in outcomes if each.report for change in each.report.changes.changed_behaviour]:
        yield Table.of(telling, "tool=id, fields", title="changed behaviour")


def _numbers(outcome: Outcome) -> tuple[Cell, ...]:
    if (report := outcome.report) is None:
        return (outcome.source, "failed", "", None, None, None, None, None)
    changes = report.changes
    return (
        f"{title_of(changes.source)}{' (dry run)' * report.dry_run}",
        _tally(changes, "agents"),
        _tally(changes, "tools"),
        len(changes.rejected),
        report.texts_embedded,
        f"{report.seconds:.2f}",
        report.revision,
        changes.source,
    )


def _tally(changes: ChangeSet, nouns: str) -> str:
    parts = {part: getattr(changes, f"{part}_{nouns}") for part in ("created", "updated", "removed", "unchanged")}
    counts = {part: each if isinstance(each, int) else len(each) for part, each in parts.items()}
    return ", ".join(f"{count} {part}" for part, count in counts.items() if count) or "none"


def _named_changes(outcome: Outcome) -> Iterator[tuple[Cell, ...]]:
    if outcome.report is None:
        return
    changes = outcome.report.changes
    if outcome.report.dry_run:
        yield from (("created", entity, None) for entity in (*changes.created_agents, *changes.created_tools))
    yield from (("updated", each.id, each.fields) for each in (*changes.updated_agents, *changes.updated_tools))
    yield from (("removed", entity, None) for entity in (*changes.removed_agents, *changes.removed_tools))
    yield from (("renamed", agent_id, f"{key} in the source") for key, agent_id in changes.renamed)
    yield from (("withheld", agent_id, "an operator removed it") for agent_id in changes.withheld)
    yield from (("waits", entity, "`waygraph approve` lets it into routing") for entity in changes.waiting)
    yield from flag_remarks(changes)
    yield from (("rejected", each.where, each.reason) for each in changes.rejected)
    yield from (("cut", each.where, each.reason) for each in changes.cut)
