"""Sources into the registry, one after the other: a bad one does not stop the others."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from waygraph.api.cli.output import complain, note
from waygraph.api.cli.pages import Outcome
from waygraph.ingest.offering import Offer, offer_of_listing, offer_of_manifest, offered
from waygraph.ingest.questions import TEMPLATES, QuestionAuthor, open_author, with_questions
from waygraph.ingest.sources.naming import name_of_command, shown
from waygraph.ingest.sources.opening import OpenedSource, Opening, open_command, open_sources
from waygraph.ingest.sources.reading import answered
from waygraph.ingest.sync import sync
from waygraph.registry.changes import Manifest, Policy
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import InvalidSetting, MassRemoval, SourceError, WaygraphError
from waygraph.registry.model import TextForm
from waygraph.registry.registry import Registry
from waygraph.registry.remote.client import RemoteRegistry
from waygraph.registry.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How many questions each tool shall have, and who writes those that it lacks."""

    count: int
    author: QuestionAuthor


@contextmanager
def asking(
    count: int, spec: str, settings: Settings, environ: Mapping[str, str], *, dry_run: bool
) -> Iterator[Asking | None]:
    """None where no questions are to be made: a dry run pays no language model. Raises InvalidSetting."""
    if not count:
        yield None
        return
    with closing(open_author(spec, settings, environ)) as author:
        if dry_run and spec != TEMPLATES:
            note("a dry run asks no language model: tools are compared without the questions that it would make up")
            yield None
        else:
            yield Asking(count=count, author=author)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """How to read and sync, as the options say."""

    opening: Opening
    policy: Policy | None
    texts: TextForm | None
    asking: Asking | None
    dry_run: bool
    allow_mass_removal: bool

    def outcomes(
        self, registry: Registry, given: Sequence[str], command: Sequence[str], progress: Progress
    ) -> Iterator[Outcome]:
        """An outcome for each source, several for an export. Ends with the one that the registry itself refused."""
        asked: list[tuple[str, Callable[[], list[OpenedSource]]]]
        asked = [(shown(text), partial(open_sources, text, self.opening)) for text in given]
        if command:
            asked.append((name_of_command(command), lambda: [open_command(command, self.opening)]))
        for text, opened in asked:
            try:
                if isinstance(registry, RemoteRegistry):
                    yield from self._offered(registry, text, opened())
                else:
                    for source in opened():
                        yield self._synced(registry, text, self._with_policy(source.read()), progress)
            except WaygraphError as error:
                yield Outcome(text, error=str(error))
                if not isinstance(error, (SourceError, MassRemoval)):
                    return

    def _offered(self, registry: RemoteRegistry, text: str, sources: Sequence[OpenedSource]) -> Iterator[Outcome]:
        """What the service made of them."""
        reports = offered(
            registry,
            self._offer(sources[0]),  # an export's sources are one file
            self.opening.settings,
            host="" if self.opening.source else socket.gethostname(),
            kind=self.opening.kind,
            policy=self.policy,
            texts=self.texts,
            dry_run=self.dry_run,
            allow_mass_removal=self.allow_mass_removal,
        )
        return (Outcome(text, report=report) for report in reports)

    def _offer(self, source: OpenedSource) -> Offer:
        """Files are read there, servers are asked here."""
        parts = source.parts()
        if source.listing and not parts.servers:
            return offer_of_listing(source.listing(), self.opening.settings)
        return offer_of_manifest(answered(parts, source.ask))

    def _synced(self, registry: Registry, text: str, manifest: Manifest, progress: Progress) -> Outcome:
        asked = self._with_questions(manifest, progress)
        report = sync(
            registry,
            asked,
            dry_run=self.dry_run,
            allow_mass_removal=self.allow_mass_removal,
            texts=self.texts,
            progress=progress,
        )
        return Outcome(text, report=report, without_questions=len(asked.cut) - len(manifest.cut))

    def _with_policy(self, manifest: Manifest) -> Manifest:
        return replace(manifest, policy=self.policy) if self.policy else manifest

    def _with_questions(self, manifest: Manifest, progress: Progress) -> Manifest:
        if self.asking is None:
            return manifest
        return with_questions(manifest, self.asking.author, self.asking.count, progress)


def refuse_other_texts(registry: Registry, texts: TextForm | None) -> None:
    """Raises InvalidSetting if the registry exists and embeds other texts than the ones asked for."""
    if texts is None or not registry.exists:
        return
    held = registry.status().state.texts
    if held != texts:
        raise InvalidSetting(
            f"--texts {texts} counts for a new registry; this one embeds {held} texts. "
            f"Run `waygraph reindex --texts {texts}` to change that."
        )


def remark(outcomes: Sequence[Outcome]) -> None:
    """On stderr: which sources failed and why, what reports say beside (once), and that records were rejected."""
    noted = set[str]()
    for outcome in outcomes:
        if outcome.report is None:
            complain(outcome.error)
            continue
        if (notice := outcome.report.notice) not in noted:
            note(notice)
            noted.add(notice)
        if lacking := outcome.without_questions:
            note(f"no questions were made up for {lacking} {'tool' if lacking == 1 else 'tools'} in {outcome.given}")
        if rejected := len(outcome.report.changes.rejected):
            said = f"{rejected} {'record was' if rejected == 1 else 'records were'} rejected in {outcome.given}"
            (complain if outcome.failed else note)(f"{said}, and none was taken" if outcome.failed else said)
