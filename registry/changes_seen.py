"""The log of changes as somebody may see it."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from waygraph.registry.access import visible
from waygraph.registry.errors import InvalidQuery
from waygraph.registry.graph.change_log import read_changes_of
from waygraph.registry.graph.reading import overlaid, read_agents, read_settings

if TYPE_CHECKING:
    from waygraph.registry.changes import Change
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.model import Principal


def checked_since(since: str, limit: int) -> str:
    """The time as the log writes it; empty as it is. Raises InvalidQuery, also for a limit below 1."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidQuery(f"limit must be a whole number from 1 up, not {limit!r}")
    if not since:
        return ""
    try:
        told = datetime.fromisoformat(since)
    except (TypeError, ValueError):
        raise InvalidQuery(f"since takes a time in ISO 8601, such as 2026-05-01T12:00:00, not {since!r}") from None
    in_utc = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    return in_utc.isoformat(timespec="microseconds")


def seen_changes(
    session: "GraphSession", since: str, agent_id: str, limit: int, principal: "Principal | None"
) -> "list[Change]":
    """The newest first; of the agents that the principal may see now."""
    return read_changes_of(session, _asked(session, agent_id, principal), since=since, limit=limit)


def _asked(session: "GraphSession", agent_id: str, principal: "Principal | None") -> list[str] | None:
    """None: of all agents, also of those that are gone."""
    if principal is None:
        return [agent_id] if agent_id else None
    settings = read_settings(session)
    agents = (overlaid(stored.agent, settings) for stored in read_agents(session).values())
    return [agent.id for agent in agents if agent_id in ("", agent.id) and visible(agent, principal)]
