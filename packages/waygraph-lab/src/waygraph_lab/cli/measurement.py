"""What the commands that measure share: options, files, and notes on what failed."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import Invocation
from waygraph.api.cli.render.output import note
from waygraph.registry.model.errors import InvalidSetting

if TYPE_CHECKING:
    from waygraph.registry.model.errors import StorageFailed, WaygraphError
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.taxonomy.tree import Taxonomy
    from waygraph_lab.evaluation.record import Record

Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the whole record here, as JSON.")
]


@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """Who reads a query before and after the search."""

    rerank: Annotated[
        str,
        typer.Option(
            metavar="SPEC", help="openai:MODEL, cross-encoder:MODEL or ranker:FILE puts the best 20 in order."
        ),
    ] = ""
    walk: Annotated[
        str,
        typer.Option(metavar="SPEC", help="openai:MODEL walks a taxonomy, by recipe taxonomy. Default: WAYGRAPH_WALK."),
    ] = ""
    by_steps: Annotated[
        str, typer.Option(metavar="SPEC", help="openai:MODEL splits each request into steps before the search.")
    ] = ""
    mode: Annotated[str, typer.Option(metavar="MODE", help="Of the walk: get_all, get_important or get_one.")] = ""
    taxonomy: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="What is walked: a taxonomy of the registry, or a file that `taxonomy export` wrote. Default: one by "
            "vectors of the dataset's agents.",
        ),
    ] = ""

    def tree(self, command: Invocation, settings: "Settings") -> "Taxonomy | None":
        """Raises UnknownName, InvalidSetting."""
        if not self.taxonomy:
            return None
        with command.open_own(settings) as registry:
            return find_or_read(registry, self.taxonomy)


def find_or_read(registry: "LocalRegistry", side: str) -> "Taxonomy":
    """Of a name or a file. Raises UnknownName, InvalidSetting."""
    from waygraph.registry.taxonomy.tree import Taxonomy, check_taxonomy

    if not side.endswith(".json"):
        return registry.operator.taxonomy(side)
    try:
        tree = Taxonomy.of_json(json.loads(Path(side).read_text(encoding="utf-8")))
        check_taxonomy(tree)
    except (OSError, ValueError, AttributeError, LookupError, TypeError, RecursionError, InvalidSetting) as error:
        raise InvalidSetting(f"{side} is no taxonomy that `waygraph taxonomy export` wrote: {error}") from error
    return tree


def choices[T: str](option: str, given: list[str] | None, known: tuple[T, ...]) -> tuple[T, ...]:
    """Raises BadParameter."""
    for name in given or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint=f"'{option}'")
    return tuple(value for value in known if value in (given or ()))


def refuse_files(*files: Path | None) -> None:
    """Raises BadParameter, StorageFailed for a file that cannot be written."""
    from waygraph_lab.evaluation.record import refuse_unwritable

    for file in filter(None, files):
        if file == Path("-"):
            raise typer.BadParameter("expected a file; --json prints what a table shows", param_hint="'--output'")
        refuse_unwritable(file)


def until_failure[T](outcomes: "Iterator[T]") -> "tuple[list[T], WaygraphError | None]":
    """What was measured is shown, though a model fails in a later trial. Raises it if there is nothing to show.

    What chat models were asked for is told at the end.
    """
    from waygraph.registry.model.errors import LanguageModelError
    from waygraph_lab.evaluation.asking import metered
    from waygraph_lab.evaluation.run import NotReranked

    done: list[T] = []
    with metered() as meter:
        try:
            for outcome in outcomes:
                done.append(outcome)  # noqa: PERF402 - those before an error stay
        except (LanguageModelError, NotReranked) as error:
            if not done:
                raise
            return done, error
        finally:
            if meter.calls:
                note(meter.text)
    return done, None


def write_error(record: "Record", output: Path) -> "StorageFailed | None":
    """Why it could not be written: what was measured is shown all the same."""
    from waygraph.registry.model.errors import StorageFailed
    from waygraph_lab.evaluation.record import write_record

    try:
        write_record(record, output)
    except StorageFailed as error:
        return error
    note(f"the record is in {output}")
    return None


def remark_on_failures(*records: "Record") -> None:
    """Also of records that are compared: nothing else tells such a query from a wrong answer."""
    for outcome in (outcome for record in records for outcome in record["outcomes"]):
        for reason, count in outcome.get("failures", {}).items():
            queries = f"{count} of {outcome['judged']} queries"
            note(f"{outcome['name']}, {outcome['by']}: {queries} failed and count 0: {reason}")


def about_run() -> dict[str, str]:
    """How a record came to be: command, date, version, commit."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    from waygraph_lab.evaluation.record import source_commit

    return {
        "command": " ".join(["waygraph", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "waygraph": version("waygraph"),
        "commit": source_commit(),
    }
