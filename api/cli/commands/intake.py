"""Sources into the registry, one after the other: a bad one does not stop the others."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from waygraph.api.cli.shown.output import complain, note
from waygraph.api.cli.shown.pages import Outcome
from waygraph.ingest.ingestion import Asking, Ingestion, opened
from waygraph.ingest.questions import TEMPLATES, open_author
from waygraph.ingest.sources.naming import name_of_command, shown
from waygraph.registry import checks
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import MassRemoval, SourceError, WaygraphError
from waygraph.registry.model import TextForm
from waygraph.registry.registry import Registry
from waygraph.registry.settings import Settings


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


def outcomes(
    ingestion: Ingestion, registry: Registry, given: Sequence[str], command: Sequence[str], progress: Progress
) -> Iterator[Outcome]:
    """An outcome for each source, several for an export. Ends with the one that the registry itself refused."""
    wanted: list[tuple[str, str | Sequence[str]]] = [(shown(text), text) for text in given]
    if command:
        wanted.append((name_of_command(command), command))
    for named, text in wanted:
        try:
            for done in ingestion.ingest(registry, opened(text, ingestion.opening), progress):
                yield Outcome(named, report=done.report, without_questions=done.without_questions)
        except WaygraphError as error:
            yield Outcome(named, error=str(error))
            if not isinstance(error, (SourceError, MassRemoval)):
                return


def refuse_other_texts(registry: Registry, texts: TextForm | None) -> None:
    """Before any source is read. Raises InvalidSetting if the registry exists and embeds other ones."""
    if texts is not None and registry.exists:
        checks.refuse_other_texts(texts, registry.status().state.texts)


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
