"""Schema migrations: numbered, idempotent, recorded in the graph.

DDL is not transactional on every engine, so a migration never relies on rollback: it is recorded after
its statements ran, and one that was cut short runs again from its start.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import batched, chain
from pathlib import Path

from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import BATCH_ROWS, GraphEngine, GraphSession
from waygraph.registry.model.errors import RegistryUnusable

_READ_SETTINGS = load("read/settings")
_READ_SOURCES = load("read/sources")
_SCHEMA_MIGRATIONS = load("schema/migrations")
_SCHEMA_RECORD_MIGRATIONS = load("schema/record_migrations")
_STATE_UPDATE = load("state/update")
_SUBJECT_ORIGINS_OF_CHANGES = load("subject/origins_of_changes")
_SYNC_COUNT_CHANGES = load("sync/count_changes")
_SYNC_DROP_CONFIRMATIONS = load("sync/drop_confirmations")

SCHEMA_VERSION = 7

_OF_ENTITY = "id name description status pending flags tags content_hash approved_hash vector_key embedding"
GRAPH: Mapping[str, str] = {
    "(:Agent)": f"{_OF_ENTITY} kind version transport visible_to bundle_hash names",
    "(:Tool)": f"{_OF_ENTITY} call_name input_schema output_schema annotations questions",
    "(:Agent)-[:OWNS]->(:Tool)": "",
    "(:Agent)-[:TEACHES]->(:Tool)": "",
    "(:Agent)-[:NEEDS]->(:Agent)": "",
    "(:Tool)-[:SIMILAR]->(:Tool)": "cosine revision",
    "(:Tool)-[:FOLLOWED_BY]->(:Tool)": "before count last_at",
    "(:Agent)-[:FOLLOWED_BY]->(:Agent)": "before count last_at",
    "(:Registry)-[:FOLLOWED_BY]->(:Tool)": "before count last_at",
    "(:Taxonomy)": "id of built_by built_at revision calls prompt_tokens completion_tokens settings current private "
    "shown_to_all",
    "(:Taxonomy)-[:ROOT]->(:Category)": "",
    "(:Category)": "id name description boundary axis depth examples embedding",
    "(:Category)-[:HAS]->(:Category)": "position",
    "(:Category)-[:HOLDS]->(:Agent)": "by",
    "(:Toolset)": "id description tools agents tags callers",
    "(:Toolset)-[:INCLUDES]->(:Tool)": "",
    "(:Source)": "id namespace rank policy owner seen_at pause_s failures",
    "(:Source)-[:CLAIMS]->(:Agent)": "key hash since revision",
    "(:Setting)": "id tags restricted visible_to pinned hidden removed tools rejections wishes",
    "(:Setting)-[:OF]->(:Agent)": "",
    "(:Change)": "id at revision source agent_id tool what fields before_hash after_hash before after flags covered",
    "(:Change)-[:OF]->(:Agent)": "",
    "(:Change)-[:OF]->(:Tool)": "",
    "(:Change)-[:OF]->(:Source)": "",
    "(:Change)-[:OF]->(:Toolset)": "",
    "(:Change)-[:FROM]->(:Source)": "",
    "(:Registry)": "id revision commit embedder embedder_spec texts schema_version skill_links",
    "(:Migration)": "id name applied_at",
}
"""Every kind of node and edge → the names of its properties. On a Neo4j the search index adds its own."""
LABELS = tuple(kind[2:-1] for kind in GRAPH if "-" not in kind)
TYPES = tuple(dict.fromkeys(kind.partition("[:")[2].partition("]")[0] for kind in GRAPH if "-" in kind))


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    statements: tuple[Statement, ...]


unique_id = partial(load, "schema/unique_id")
"""The constraint that the nodes of a label have ids of their own."""
_AT_FIRST = ("Agent", "Tool", "Source", "Setting", "Registry", "Migration")
_SUBJECTS = (
    ("", load("subject/agents_of_changes")),
    ("", load("subject/tools_of_changes")),
    ("source:", load("subject/sources_of_changes")),
    ("toolset:", load("subject/toolsets_of_changes")),
    ("", load("subject/agents_of_settings")),
)
"""How the ids begin that a statement is about, and the statement."""
_LINKS = 6
"""The migration since which changes and settings have edges."""
MIGRATIONS = (
    Migration(1, "ids are unique", tuple(map(unique_id, _AT_FIRST))),
    Migration(2, "changes are kept", (unique_id("Change"),)),
    Migration(3, "taxonomies", (unique_id("Taxonomy"), unique_id("Category"))),
    Migration(4, "toolsets", (unique_id("Toolset"),)),
    Migration(5, "failures of sources", ()),
    Migration(_LINKS, "edges of changes and settings", ()),
    Migration(7, "edges of skills, no counts of use", (load("schema/drop_use"),)),
)


def migrate(engine: GraphEngine, place: str, now: str) -> None:
    """Runs what this graph has not seen, of which its Registry node then tells.

    Raises RegistryUnusable if a newer Waygraph wrote it.
    """
    migrations = seen_migrations(engine, place)
    missing = [each for each in MIGRATIONS if each.number not in migrations]
    for statement in chain.from_iterable(each.statements for each in missing):
        engine.define(statement)
    if any(each.number == _LINKS for each in missing):
        link_all_subjects(engine)
        engine.run(_SYNC_DROP_CONFIRMATIONS)
    if missing:
        engine.run(_STATE_UPDATE, props={"schema_version": SCHEMA_VERSION})
        rows = [{"id": str(each.number), "name": each.name, "applied_at": now} for each in missing]
        engine.run(_SCHEMA_RECORD_MIGRATIONS, rows=rows)


def link_all_subjects(session: GraphSession) -> None:
    """Changes and settings with what they are about."""
    rows = (*session.run(_SYNC_COUNT_CHANGES), *session.run(_READ_SETTINGS))
    agent_ids = dict.fromkeys(row["agent_id"] for row in rows)
    link_subjects(session, agent_ids, [row["name"] for row in session.run(_READ_SOURCES)])


def link_subjects(session: GraphSession, agent_ids: Iterable[str], sources: Iterable[str] = ()) -> None:
    """Settings and changes of these agents, and the changes that these sources made, with what they are about, where
    that is there and no edge leads to it yet. What goes takes its edges along. An id of a change may also be
    `source:NAME` or `toolset:NAME`.
    """
    for ids in batched(agent_ids, BATCH_ROWS):
        for beginning, statement in _SUBJECTS:
            if some := [each for each in ids if each.startswith(beginning)]:
                session.run(statement, agent_ids=some)
    for source in sources:
        session.run(_SUBJECT_ORIGINS_OF_CHANGES, source=source)


def seen_migrations(session: GraphSession, place: str) -> set[int]:
    """Raises RegistryUnusable if a newer Waygraph wrote the graph."""
    migrations = {int(row["id"]) for row in session.run(_SCHEMA_MIGRATIONS)}
    refuse_newer(place, max(migrations, default=0))
    return migrations


def refuse_newer(place: str | Path, version: int) -> None:
    """Raises RegistryUnusable for a registry of a newer schema."""
    if version > SCHEMA_VERSION:
        reason = f"a newer Waygraph wrote it (schema {version}; this one knows {SCHEMA_VERSION}). Upgrade waygraph."
        raise RegistryUnusable(place, reason)
