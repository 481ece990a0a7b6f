"""The log of changes in the graph: `(:Change)` nodes, written by the transaction that makes the change.

The id begins with the revision, so that the order of ids is that of time.
"""

from collections import Counter
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
    """Adds to the log, of which at most `max_kept` are kept. Nothing to add costs nothing.

    The oldest go, of the agents that have the most: an agent that changes without end drives out no other's changes.
    """
    if not log:
        return
    put_changes(session, _fair_part(log, max_kept))
    counted = {row["agent_id"]: int(row["changes"]) for row in session.run(load("sync/count_changes"))}
    share = _share(counted.values(), max_kept)
    for agent_id, count in counted.items():
        _forget_oldest(session, count - share, [agent_id])
    _forget_oldest(session, sum(min(count, share) for count in counted.values()) - max_kept)


def _fair_part(log: Sequence[Change], most: int) -> list[Change]:
    """The newest, in order, with no more of an agent than its share."""
    share = _share(Counter(change.agent_id for change in log).values(), most)
    kept, of_agent = list[Change](), Counter[str]()
    for change in reversed(log):
        of_agent[change.agent_id] += 1
        if of_agent[change.agent_id] <= share and len(kept) < most:
            kept.append(change)
    return kept[::-1]


def _share(counts: Collection[int], most: int) -> int:
    """How many changes an agent may keep: with the surplus of none above it, `most` or barely more are left."""
    left = most
    for done, count in enumerate(sorted(counts)):
        agents = len(counts) - done
        if count * agents >= left:
            return -(-left // agents)
        left -= count
    return most


def _forget_oldest(session: GraphSession, number: int, agent_ids: Collection[str] | None = None) -> None:
    """None: of all agents."""
    if number <= 0:
        return
    asked = {"all": agent_ids is None, "agent_ids": list(agent_ids or ())}
    oldest = [row["id"] for row in session.run(load("sync/oldest_changes"), **asked, rows=number)]
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
