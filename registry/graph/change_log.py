"""The log of changes in the graph: `(:Change)` nodes, written by the transaction that makes the change.

The id begins with the revision, so that the order of ids is that of time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from waygraph.cypher import load
from waygraph.registry.changes import Change
from waygraph.registry.graph.batches import batches
from waygraph.registry.graph.engine import GraphSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a transaction makes: its time (ISO 8601 in UTC) and revision."""

    now: str
    revision: int


def stamped(log: Sequence[Change], stamp: Stamp) -> list[Change]:
    """Each with its id, time and revision."""
    return [
        replace(change, id=f"{stamp.revision:012d}-{number:06d}", at=stamp.now, revision=stamp.revision)
        for number, change in enumerate(log)
    ]


def keep_changes(session: GraphSession, log: Sequence[Change], max_kept: int) -> None:
    """Adds to the log; the oldest go, so that at most `max_kept` are kept. Nothing to add costs nothing."""
    if not log:
        return
    put_changes(session, log[-max_kept:] if max_kept else ())
    surplus = int(session.run(load("sync/count_changes"))[0]["changes"]) - max_kept
    if surplus > 0:
        oldest = [row["id"] for row in session.run(load("sync/oldest_changes"), rows=surplus)]
        for batch in batches(oldest):
            session.run(load("sync/remove_changes"), ids=list(batch))


def put_changes(session: GraphSession, log: Sequence[Change]) -> None:
    for batch in batches(log):
        session.run(load("sync/put_changes"), rows=[{"props": _props(change)} for change in batch])


def read_changes(session: GraphSession) -> list[Change]:
    """All that are kept, the oldest first."""
    return [_change(row) for row in session.run(load("read/changes"))]


def read_changes_of(
    session: GraphSession, agent_ids: Collection[str] | None, *, since: str, before: str = "", limit: int
) -> list[Change]:
    """The newest `limit` since a time (ISO 8601 in UTC; empty: ever), the newest first. None: of all agents.

    `before`: only those older than the change of this id.
    """
    everyone, ids = agent_ids is None, list(agent_ids or ())
    rows = session.run(load("read/changes_of"), since=since, before=before, all=everyone, agent_ids=ids, limit=limit)
    return [_change(row) for row in rows]


def _props(change: Change) -> dict[str, object]:
    return {**asdict(change), "fields": list(change.fields), "flags": list(change.flags)}


def _change(row: Mapping[str, Any]) -> Change:
    return Change(**{**row, "fields": tuple(row["fields"]), "flags": tuple(row["flags"])})
