"""Sources into the registry, one after the other: a bad one does not stop the others."""

import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from waygraph.api.cli.output import complain, note
from waygraph.api.cli.pages import Outcome
from waygraph.ingest.offering import offered
from waygraph.ingest.questions import TEMPLATES, QuestionAuthor, open_author, with_questions
from waygraph.ingest.sources import list_path, list_stream, read_path, read_stream
from waygraph.ingest.sync import sync
from waygraph.registry.changes import Manifest
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import InvalidSetting, MassRemoval, SourceError, WaygraphError
from waygraph.registry.model import TextForm
from waygraph.registry.registry import Registry
from waygraph.registry.remote.client import RemoteRegistry
from waygraph.registry.settings import Settings

STDIN = "-"


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

    settings: Settings
    source: str
    namespace: str
    kind: str
    texts: TextForm | None
    asking: Asking | None
    dry_run: bool
    allow_mass_removal: bool

    def outcomes(self, registry: Registry, given: Sequence[str], progress: Progress) -> Iterator[Outcome]:
        """An outcome for each source, several for an export. Ends with the one that the registry itself refused."""
        for text in given:
            try:
                if isinstance(registry, RemoteRegistry):
                    yield from self._offered(registry, text)
                else:
                    for manifest in self._manifests(text):
                        yield self._synced(registry, text, manifest, progress)
            except WaygraphError as error:
                yield Outcome(text, error=str(error))
                if not isinstance(error, (SourceError, MassRemoval)):
                    return

    def _offered(self, registry: RemoteRegistry, text: str) -> Iterator[Outcome]:
        """What the service made of the files, which it reads."""
        listed = partial(list_stream, sys.stdin.buffer) if text == STDIN else partial(list_path, text)
        reports = offered(
            registry,
            listed(source=self.source, namespace=self.namespace),
            self.settings,
            host="" if self.source else socket.gethostname(),
            kind=self.kind,
            texts=self.texts,
            dry_run=self.dry_run,
            allow_mass_removal=self.allow_mass_removal,
        )
        return (Outcome(text, report=report) for report in reports)

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

    def _with_questions(self, manifest: Manifest, progress: Progress) -> Manifest:
        if self.asking is None:
            return manifest
        return with_questions(manifest, self.asking.author, self.asking.count, progress)

    def _manifests(self, text: str) -> list[Manifest]:
        if text == STDIN:
            return read_stream(
                sys.stdin.buffer, self.settings, source=self.source, namespace=self.namespace, kind=self.kind
            )
        return read_path(text, self.settings, source=self.source, namespace=self.namespace, kind=self.kind)


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
    """On stderr: which sources failed and why, and that records were rejected."""
    for outcome in outcomes:
        if outcome.report is None:
            complain(outcome.error)
            continue
        note(outcome.report.notice)
        if lacking := outcome.without_questions:
            note(f"no questions were made up for {lacking} {'tool' if lacking == 1 else 'tools'} in {outcome.given}")
        if rejected := len(outcome.report.changes.rejected):
            note(f"{rejected} {'record was' if rejected == 1 else 'records were'} rejected in {outcome.given}")
