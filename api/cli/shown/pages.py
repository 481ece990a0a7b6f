"""What a command gathers from several answers of the core, before it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.registry.changes import SyncReport


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source. `given` is the SOURCE as typed; without a `report` the `error` says why.

    `without_questions`: tools that its author of questions had no fit answer for.
    """

    given: str
    report: "SyncReport | None" = None
    error: str = ""
    without_questions: int = 0

    @property
    def failed(self) -> bool:
        """Also where there is a report of it, and each of its records was rejected."""
        return self.report is None or self.report.changes.took_nothing


@dataclass(frozen=True, slots=True)
class Exported:
    """An export: in the file `path`, or as `content` if there is no path."""

    form: str
    size_bytes: int
    path: str | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What became of a host's file. `difference`: lines, without values; only of a dry run.

    `taken`, `stays`: servers that went behind the gateway, and those that did not, each with its reason. `restored`,
    `kept`: those that came back, and those whose name the file has given to another meanwhile; `whole`: the file is as
    it was before. `lacking`: variables that the host cannot hand on.
    """

    host: str
    file: str
    changed: bool
    dry_run: bool
    entry: str = ""
    """As a file with nothing else in it would have it; only where nothing was to be done."""
    restart: str = ""
    backup: str = ""
    difference: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    stays: Mapping[str, str] = field(default_factory=dict)
    kept_in: str = ""
    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    whole: bool = False
    lacking: tuple[str, ...] = ()
