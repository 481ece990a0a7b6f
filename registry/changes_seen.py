"""The log of changes as somebody may see it."""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from waygraph.registry.access import visible
from waygraph.registry.checks import check_limit
from waygraph.registry.errors import InvalidQuery
from waygraph.registry.flags import seen_flags
from waygraph.registry.graph.change_log import read_changes_of
from waygraph.registry.graph.reading import overlaid, read_agents, read_claims, read_settings, read_state
from waygraph.registry.identity import name_fault
from waygraph.registry.pages import Page

if TYPE_CHECKING:
    from waygraph.registry.changes import Change
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.model import Principal

_READ_AT_ONCE = 1_000
_SHOWN_CHARS = 100
_NOBODY = "?"
"""No agent's id."""
_ID = re.compile(r"[0-9]{12,}-[0-9]{6,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesAsked:
    """Which changes. `since`: as the log writes times, empty: ever; `after`: older than this change, empty: all."""

    since: str = ""
    agent_id: str = ""
    after: str = ""
    limit: int | None = None

    @staticmethod
    def of(since: str, agent_id: str, after: str, limit: int | None) -> "ChangesAsked":
        """Raises InvalidQuery."""
        if limit is not None:
            check_limit(limit)
        if after and not _ID.fullmatch(after):
            raise InvalidQuery(
                "this is no place in the log of changes: it begins at the id of a change, or at its cursor"
            )
        # What cannot be an id is nobody's, and neither a URL nor every database takes any text.
        agent = _NOBODY if agent_id and name_fault(agent_id) else agent_id
        return ChangesAsked(since=_in_utc(since), agent_id=agent, after=after, limit=limit)


def _in_utc(since: str) -> str:
    """Raises InvalidQuery."""
    if not since:
        return ""
    try:
        told = datetime.fromisoformat(since)
        in_utc = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        shown = repr(since)[:_SHOWN_CHARS]
        raise InvalidQuery(f"since takes a time in ISO 8601, such as 2026-05-01T12:00:00, not {shown}") from None
    return in_utc.isoformat(timespec="microseconds")


def seen_changes(session: "GraphSession", asked: ChangesAsked, principal: "Principal | None") -> "Page[Change]":
    """The newest first: of the agents that the principal may see now, since they were last made known."""
    state, some = read_state(session), None if principal is None else _Seen.by(session, principal)
    found = _read(session, asked, some)
    items = list(found if asked.limit is None else islice(found, min(asked.limit, sys.maxsize)))
    more = asked.limit is not None and next(found, None) is not None
    return Page(items=tuple(items), revision=state.revision if state else 0, following=items[-1].id if more else "")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of the log a principal may see: the agents, each since when, and the names of sources."""

    since: "Mapping[str, str]"
    sources: Collection[str]

    @staticmethod
    def by(session: "GraphSession", principal: "Principal") -> "_Seen":
        """An agent of the same id that was there before it, and is gone, is another one, which others saw."""
        settings = read_settings(session)
        agents = (overlaid(stored.agent, settings) for stored in read_agents(session).values())
        shown = {agent.id for agent in agents if visible(agent, principal)}
        since: dict[str, str] = {}
        claims = [claim for claim in read_claims(session) if claim.agent_id in shown]
        for claim in claims:
            since[claim.agent_id] = min(claim.since, since.get(claim.agent_id, claim.since))
        return _Seen(since, {claim.source for claim in claims})

    def shown(self, change: "Change") -> bool:
        return change.at >= self.since[change.agent_id]

    def told(self, change: "Change") -> "Change":
        """Without the name of a source that has nothing any more which the principal may see."""
        source = change.source if change.source in self.sources else ""
        return replace(change, source=source, flags=seen_flags(change.flags, self.since.__contains__))


def _read(session: "GraphSession", asked: ChangesAsked, some: _Seen | None) -> "Iterator[Change]":
    agents = [asked.agent_id] if asked.agent_id else None
    if some:
        agents = [agent_id for agent_id in some.since if asked.agent_id in ("", agent_id)]
    before = asked.after
    while True:
        part = read_changes_of(session, agents, since=asked.since, before=before, limit=_READ_AT_ONCE)
        yield from part if some is None else (some.told(change) for change in part if some.shown(change))
        if len(part) < _READ_AT_ONCE:
            return
        before = part[-1].id
