"""Schema migrations: numbered, safe to repeat, recorded in the graph.

DDL is not transactional on every engine, so a migration never relies on rollback: it is recorded after
its statements ran, and one that was cut short runs again from its start.
"""

from dataclasses import dataclass
from itertools import chain

from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import GraphEngine, GraphSession
from waygraph.registry.model.errors import RegistryUnusable

_SCHEMA_MIGRATIONS = load("schema/migrations")
_SCHEMA_RECORD_MIGRATION = load("schema/record_migration")

SCHEMA_VERSION = 5


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    statements: tuple[Statement, ...]


_AT_FIRST = ("Agent", "Tool", "Source", "Setting", "Registry", "Migration")
LABELS = (*_AT_FIRST, "Change", "Taxonomy", "Category", "Toolset")
MIGRATIONS = (
    Migration(1, "ids are unique", tuple(load(f"schema/unique_{label.lower()}") for label in _AT_FIRST)),
    Migration(2, "changes are kept", (load("schema/unique_change"),)),
    Migration(3, "taxonomies", (load("schema/unique_taxonomy"), load("schema/unique_category"))),
    Migration(4, "toolsets", (load("schema/unique_toolset"),)),
    Migration(5, "failures of sources", ()),
)


def migrate(engine: GraphEngine, place: str, now: str) -> None:
    """Runs what this graph has not seen. Raises RegistryUnusable if a newer Waygraph wrote it."""
    migrations = seen_migrations(engine, place)
    missing = [each for each in MIGRATIONS if each.number not in migrations]
    for statement in chain.from_iterable(each.statements for each in missing):
        engine.define(statement)
    for each in missing:
        engine.run(_SCHEMA_RECORD_MIGRATION, id=str(each.number), name=each.name, applied_at=now)


def seen_migrations(session: GraphSession, place: str) -> set[int]:
    """Raises RegistryUnusable if a newer Waygraph wrote the graph."""
    migrations = {int(row["id"]) for row in session.run(_SCHEMA_MIGRATIONS)}
    if migrations and max(migrations) > SCHEMA_VERSION:
        raise RegistryUnusable(
            place,
            f"a newer Waygraph wrote it (schema {max(migrations)}; this one knows {SCHEMA_VERSION}). Upgrade waygraph.",
        )
    return migrations
