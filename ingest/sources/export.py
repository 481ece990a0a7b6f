"""What `waygraph export --format json` wrote: every source's manifest again, and what operators had set."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waygraph.ingest.manifest import Intake
from waygraph.ingest.sources import catalogue
from waygraph.registry.changes import AgentEntry, Manifest, OperatorSettings, Rejected
from waygraph.registry.errors import SourceError
from waygraph.registry.settings import Settings

MARK, VERSION, KIND = "waygraph_export", 1, "export"


def fits(document: Any) -> bool:
    return isinstance(document, Mapping) and MARK in document


def read(document: Mapping[str, Any], where: str, settings: Settings, *, restore: bool = False) -> list[Manifest]:
    """A manifest for each source of the export. What operators had set comes back only if `restore` asks for it:

    any file may call itself an export, and must not show what an operator hid. Raises SourceError.
    """
    if document[MARK] != VERSION:
        raise SourceError(
            where, f"this Waygraph reads exports of format {VERSION}, found {document[MARK]!r}", pointer=f"/{MARK}"
        )
    intake = Intake(where=where, settings=settings)
    for record in catalogue.read({"waygraph": catalogue.VERSION, "agents": document.get("agents")}, where, intake):
        intake.take(record)
    entries = {entry.key: entry for entry in intake.entries}
    try:
        operator = tuple(_setting(row) for row in document.get("operator", ())) if restore else ()
        sources = [
            replace(_manifest(row, entries), partial=bool(intake.rejected)) for row in document.get("sources", ())
        ]
    except (KeyError, TypeError, AttributeError) as exc:
        raise SourceError(where, f"is not a whole export: {exc!r}") from exc
    return _with_rest(sources, operator, intake.rejected)


def _manifest(row: Mapping[str, Any], entries: Mapping[str, AgentEntry]) -> Manifest:
    """The source's claims: [key in the source, agent id]."""
    claimed = [(key, entries[agent_id]) for key, agent_id in row["claims"] if agent_id in entries]
    return Manifest(
        source=row["name"],
        namespace=row["namespace"],
        rank=row["rank"],
        entries=tuple(AgentEntry(key=key, agent=entry.agent, tools=entry.tools) for key, entry in claimed),
    )


def _setting(row: Mapping[str, Any]) -> OperatorSettings:
    visible_to = row["visible_to"]
    return OperatorSettings(
        agent_id=row["agent_id"],
        tags=tuple(row["tags"]),
        visible_to=None if visible_to is None else tuple(visible_to),
        pinned=row["pinned"],
        hidden=row["hidden"],
        removed=row["removed"],
    )


def _with_rest(
    sources: list[Manifest], operator: tuple[OperatorSettings, ...], rejected: list[Rejected]
) -> list[Manifest]:
    """Operators' words and rejected records ride on the first manifest."""
    if not sources and operator:
        sources = [Manifest(source="operators")]
    return [replace(sources[0], operator=operator, rejected=tuple(rejected)), *sources[1:]] if sources else []
