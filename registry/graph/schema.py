"""Schema migrations: numbered, safe to repeat, recorded in the graph.

DDL is not transactional on every engine, so a migration never relies on rollback: it is recorded after
its statements ran, and one that was cut short runs again from its start.
"""

from dataclasses import dataclass

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphEngine, GraphSession
from waygraph.registry.model.errors import RegistryUnusable

SCHEMA_VERSION = 5


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    statements: tuple[str, ...]


_AT_FIRST = ("Agent", "Tool", "Source", "Setting", "Registry", "Migration")
LABELS = (*_AT_FIRST, "Change", "Taxonomy", "Category", "Toolset")
MIGRATIONS = (
    Migration(1, "ids are unique", tuple(f"schema/unique_{label.lower()}" for label in _AT_FIRST)),
    Migration(2, "changes are kept", ("schema/unique_change",)),
    Migration(3, "taxonomies", ("schema/unique_taxonomy", "schema/unique_category")),
    Migration(4, "toolsets", ("schema/unique_toolset",)),
    Migration(5, "failures of sources", ()),
)


def migrate(engine: GraphEngine, place: str, now: str) -> None:
    """Runs what this graph has not seen. Raises RegistryUnusable if a newer Waygraph wrote it."""
    migrations = seen_migrations(engine, place)
    for migration in MIGRATIONS:
        if migration.number not in migrations:
            _run(engine, migration, now)


def seen_migrations(session: GraphSession, place: str) -> set[int]:
    """Raises RegistryUnusable if a newer Waygraph wrote the graph."""
    migrations = {int(row["id"]) for row in session.run(load("schema/migrations"))}
    if migrations and max(migrations) > SCHEMA_VERSION:
        raise RegistryUnusable(
            place,
            f"a newer Waygraph wrote it (schema {max(migrations)}; this one knows {SCHEMA_VERSION}). Upgrade waygraph.",
        )
    return migrations


def _run(engine: GraphEngine, migration: Migration, now: str) -> None:
    for name in migration.statements:
        engine.define(load(name))
    engine.run(load("schema/record_migration"), id=str(migration.number), name=migration.name, applied_at=now)
