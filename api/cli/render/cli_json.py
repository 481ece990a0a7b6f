"""What only the command line prints, as JSON. Each function is one shape of docs/json-output.md; the nouns are in
`registry.model.shapes`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.registry.model.shapes import Shape, report, shape

if TYPE_CHECKING:
    from waygraph.ingest.logins.store import Login
    from waygraph.registry.access.api_keys import ApiKey, KeyState
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.model.changes import SyncReport
    from waygraph.registry.storage.integrity.findings import Finding
    from waygraph.registry.storage.migrate import MigrationReport


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one source. `source` is the SOURCE as typed; without a `report` the `error` says why.

    `without_questions`: tools that its author of questions had no fit answer for.
    """

    source: str
    report: "SyncReport | None" = None
    error: str = ""
    without_questions: int = 0

    @property
    def is_failure(self) -> bool:
        """Also where there is a report of it, and each of its records was rejected."""
        return self.report is None or self.report.changes.took_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export: in the file `path`, or as `content` if there is no path."""

    format: str
    path: str | None = None
    size_bytes: int
    content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOutcome:
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


def ingest(outcomes: "Iterable[Outcome]") -> Shape:
    return {
        "sources": [
            {"given": each.source, "error": each.error, "report": report(each.report) if each.report else None}
            for each in outcomes
        ]
    }


def created_key(new_key: "tuple[ApiKey, str]") -> Shape:
    """The one shape that holds a key itself."""
    key, text = new_key
    return {"key": text, **api_key((key, "active"))}


def api_keys(keys: "Iterable[tuple[ApiKey, KeyState]]") -> Shape:
    return {"keys": [api_key(each) for each in keys]}


def api_key(key_and_state: "tuple[ApiKey, KeyState]") -> Shape:
    key, state = key_and_state
    return {"id": key.id, "name": key.name, "state": state, **shape(key, exclude={"id", "name", "sha256"})}


def logins(entries: "Iterable[Login]") -> Shape:
    return {"logins": [shape(each, exclude={"address", "id", "key", "box"}) for each in entries]}


def models(entries: "Iterable[InstalledModel]") -> Shape:
    return {"models": list(map(shape, entries))}


def model_place(place: tuple[str, Path]) -> Shape:
    spec, folder = place
    return {"spec": spec, "path": str(folder)}


def migration_json(migration: "MigrationReport") -> Shape:
    numbers = shape(migration, exclude={"source", "target"})
    return {"from": migration.source, "to": migration.target, **numbers}


def findings(checks: "Sequence[Finding]") -> Shape:
    return {"ok": all(each.ok for each in checks), "findings": list(map(shape, checks))}
