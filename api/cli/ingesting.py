"""`ingest`: sources into the registry, one after the other; a bad one does not stop the others."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import AsJson, TextForm
from waygraph.api.cli.output import complain, note, show
from waygraph.api.cli.progress import progress_bar

if TYPE_CHECKING:
    from waygraph.registry.model import Manifest, SyncReport
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source. `given` is the SOURCE as typed; without a `report` the `error` says why."""

    given: str
    report: "SyncReport | None" = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How to read and sync, as the options say."""

    source: str
    namespace: str
    kind: str
    texts: "TextForm | None"
    dry_run: bool
    allow_mass_removal: bool


def ingest(
    context: typer.Context,
    given: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Files, folders or globs; `-` is standard input.")
    ],
    source: Annotated[
        str, typer.Option("--source", metavar="NAME", help="The source's name. Default: its absolute path.")
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    allow_mass_removal: Annotated[
        bool, typer.Option("--allow-mass-removal", help="Let a source remove more than half of its agents.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read agents and tools from sources, and bring the registry to what they say.

    waygraph ingest catalog/ servers.json --dry-run
    """
    if source and len(given) > 1:
        raise typer.BadParameter("one name cannot stand for several sources", param_hint="'--source'")
    from waygraph.api.cli import shapes, views

    told = invocation(context)
    wanted = Wanted(
        source=source,
        namespace=namespace,
        kind=kind,
        texts=texts,
        dry_run=dry_run,
        allow_mass_removal=allow_mass_removal,
    )
    settings = told.settings()
    with told.open() as registry, progress_bar("Embedding", settings.progress_after_s) as progress:
        _refuse_other_texts(registry, texts)
        outcomes = list(_outcomes(registry, given, wanted, settings, progress))
    show(outcomes, shapes.ingest, views.ingest, as_json)
    _remark(outcomes)
    if any(outcome.report is None for outcome in outcomes):
        raise typer.Exit(1)


def _outcomes(
    registry: "Registry",
    given: Sequence[str],
    wanted: Wanted,
    settings: "Settings",
    progress: Callable[[int, int], None],
) -> Iterator[Outcome]:
    """An outcome for each source, or several if it is an export; the last one if the registry itself fails."""
    from waygraph.ingest.sync import sync
    from waygraph.registry.errors import MassRemoval, SourceError, WaygraphError

    for text in given:
        try:
            for manifest in _manifests(text, wanted, settings):
                report = sync(
                    registry,
                    manifest,
                    dry_run=wanted.dry_run,
                    allow_mass_removal=wanted.allow_mass_removal,
                    texts=wanted.texts,
                    progress=progress,
                )
                yield Outcome(text, report=report)
        except (SourceError, MassRemoval) as error:
            yield Outcome(text, error=str(error))
        except WaygraphError as error:
            yield Outcome(text, error=str(error))
            return


def _manifests(text: str, wanted: Wanted, settings: "Settings") -> "list[Manifest]":
    from waygraph.ingest.sources import read_path, read_stream

    if text == STDIN:
        return read_stream(
            sys.stdin.buffer, settings, source=wanted.source, namespace=wanted.namespace, kind=wanted.kind
        )
    return read_path(text, settings, source=wanted.source, namespace=wanted.namespace, kind=wanted.kind)


def _refuse_other_texts(registry: "Registry", texts: "TextForm | None") -> None:
    """Raises InvalidSetting if the registry exists and embeds other texts than the ones asked for."""
    from waygraph.registry.errors import InvalidSetting

    if texts is None or not registry.exists:
        return
    held = registry.status().state.texts
    if held != texts:
        raise InvalidSetting(
            f"--texts {texts} counts for a new registry; this one embeds {held} texts. "
            f"Run `waygraph reindex --texts {texts}` to change that."
        )


def _remark(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.report is None:
            complain(outcome.error)
            continue
        note(outcome.report.notice)
        if rejected := len(outcome.report.changes.rejected):
            note(f"{rejected} {'record was' if rejected == 1 else 'records were'} rejected in {outcome.given}")
