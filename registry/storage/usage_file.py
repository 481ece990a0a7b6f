"""The file `usage.sqlite` in the data folder: how tools were used, by registry, summed over processes and restarts.

It is no part of the graph: a count would make a revision of each. Losing it loses counts and nothing else.
"""

import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path

from waygraph.registry.index.names import agent_named, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.files import PRIVATE
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import SqliteFile
from waygraph.registry.model.usage import Count, Sort, ToolUsage, check_usage, summarize
from waygraph.registry.storage.location import MEMORY, is_server
from waygraph.registry.storage.store import Store

CREATE = """
CREATE TABLE IF NOT EXISTS usage (
    registry TEXT, tool TEXT, outcome TEXT, bucket INTEGER, calls INTEGER, first_at TEXT, last_at TEXT,
    PRIMARY KEY (registry, tool, outcome, bucket)
) WITHOUT ROWID
"""
_ADD = """
INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at)
"""
_READ = "SELECT tool, outcome, bucket, calls, first_at, last_at FROM usage WHERE registry = ?"
_OLD = "SELECT tool FROM usage WHERE registry = ? GROUP BY tool HAVING max(last_at) < ?"
_DROP = "DELETE FROM usage WHERE registry = ? AND tool = ?"


class UsageFile:
    """The counts of one registry. Every method raises StorageFailed."""

    def __init__(self, settings: Settings, place: str) -> None:
        """`place`: of a store; a registry in memory has no counts."""
        self._file = SqliteFile(settings.data_path / "usage.sqlite", CREATE, mode=PRIVATE)
        self._registry = place if is_server(place) else str(Path(place).resolve())

    def add(self, counts: Iterable[Count]) -> None:
        """All of them, or none."""
        rows = [(self._registry, *count) for count in counts]
        self._file.run(lambda database: database.executemany(_ADD, rows))

    def read(self) -> list[Count]:
        if not self._file.path.exists():
            return []
        return self._file.run(lambda database: [Count(*row) for row in database.execute(_READ, (self._registry,))])

    def drop_gone(self, tool_ids: Collection[str], before: str) -> None:
        """Counts of tools that are not in the registry and were not called since `before` (ISO 8601 in UTC)."""

        def delete(database: sqlite3.Connection) -> None:
            old = [tool for (tool,) in database.execute(_OLD, (self._registry, before))]
            database.executemany(_DROP, [(self._registry, tool) for tool in old if tool not in tool_ids])

        self._file.run(delete)


def held_tools(index: SearchIndex, principal: Principal | None = None) -> set[str]:
    """The ids of the tools of all agents that the principal may see."""
    agent_ids = [agent.id for agent in visible_agents(index, principal)]
    return {tool_id for ids in index.tool_ids_of(agent_ids).values() for tool_id in ids}


def read_usage(
    store: Store, settings: Settings, *, agent_id: str, sort: Sort, limit: int, principal: Principal | None
) -> list[ToolUsage]:
    """Of the tools that are in the registry now. Raises InvalidQuery, UnknownName, RegistryNotFound, StorageFailed."""
    check_usage(sort, limit)
    if agent_id:
        store.look(lambda index: agent_named(index, agent_id, principal))
    tool_ids = store.look(lambda index: held_tools(index, principal))
    counts = [] if store.place == MEMORY else UsageFile(settings, store.place).read()
    prefix = f"{agent_id}/" if agent_id else ""
    return summarize((c for c in counts if c.tool_id in tool_ids and c.tool_id.startswith(prefix)), sort, limit)
