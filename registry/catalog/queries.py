"""What somebody may see of a registry: lists in parts, and the log of changes.

A function here looks at one index, so that what it gives is of one revision whatever is published meanwhile.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING

from waygraph.registry.access.visibility import fits, narrow, seen_flags, visible
from waygraph.registry.graph.read import overlaid, read_agents, read_changes_of, read_claims, read_settings, read_state
from waygraph.registry.index.names import agent_named, seen_tools, visible_agents
from waygraph.registry.model.changes import About, ListedAgent, Page
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.identity import name_fault
from waygraph.registry.model.nouns import Agent, Filters, Principal, Tool, word_of
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_limit
from waygraph.registry.operators.toolset import seen_toolset
from waygraph.registry.taxonomy.browse import current_members

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.changes import Change, IndexState, SourceSummary, Standing


def about(index: "SearchIndex", agent_id: str, principal: "Principal | None") -> About:
    """Raises UnknownName."""
    return About(
        agent=agent_named(index, agent_id, principal),
        tools=tuple(seen_tools(index, index.tool_ids(agent_id), principal)),
        settings=index.settings().get(agent_id),
        sources=tuple(source.name for source in index.sources() if agent_id in source.agent_ids),
        revision=index.state.revision,
    )


def agents_page(
    index: "SearchIndex", filters: "Filters", principal: "Principal | None", after: str, limit: int | None
) -> Page[ListedAgent]:
    """The agents whose id comes after `after`, at most `limit` of them."""
    fitting = {agent.id: agent for agent in visible_agents(index, principal) if fits(agent, filters)}
    part, following = part_of(list(fitting), after, limit)
    tools = index.tool_ids_of(part)
    items = tuple(ListedAgent(fitting[agent_id], len(tools[agent_id])) for agent_id in part)
    return Page(items=items, revision=index.state.revision, following=following)


def tools_page(
    index: "SearchIndex", agent_id: str | None, principal: "Principal | None", after: str, limit: int | None
) -> "Page[Tool]":
    """The tools of an agent, or of all (None). Raises UnknownName."""
    owners = visible_agents(index, principal) if agent_id is None else [agent_named(index, agent_id, principal)]
    ids = sorted(chain.from_iterable(index.tool_ids_of([owner.id for owner in owners]).values()))
    part, following = part_of(ids, after, limit)
    return Page(items=tuple(seen_tools(index, part, principal)), revision=index.state.revision, following=following)


def part_of(ids: Sequence[str], after: str, limit: int | None) -> tuple[Sequence[str], str]:
    """Of ids in order: those after one, and the last of them if more follow. Raises InvalidQuery."""
    if limit is not None:
        check_limit(limit)
    start = bisect_right(ids, after) if after else 0
    end = len(ids) if limit is None else min(start + limit, len(ids))
    return ids[start:end], ids[end - 1] if end < len(ids) else ""


def seen_sources(index: "SearchIndex", principal: "Principal | None") -> "list[SourceSummary]":
    """Each with the claims on agents that the principal may see, and their failures; without any it is none for it."""
    if principal is None:
        return list(index.sources())
    visible_ids = {agent.id for agent in visible_agents(index, principal)}
    parts = (source.limit_to(visible_ids) for source in index.sources())
    return [source for source in parts if source.claims]


def standing_sources(index: "SearchIndex", principal: "Principal | None") -> "list[SourceSummary]":
    """As `seen_sources`, each with how the agents stand that it claims."""
    agents = index.agents()
    waiting = Counter(tool_id.partition("/")[0] for tool_id in index.pending_tools())
    return [
        replace(source, standing=_standing([agents[agent_id] for agent_id in source.agent_ids], waiting))
        for source in seen_sources(index, principal)
    ]


def _standing(agents: "Sequence[Agent]", waiting: "Mapping[str, int]") -> "Standing":
    """`waiting`: how many tools of an agent wait."""
    from waygraph.registry.model.changes import Standing

    of_status: Counter[str] = Counter(word_of(agent.status) for agent in agents)
    return Standing(
        **of_status,
        pending=sum(agent.pending for agent in agents),
        pending_tools=sum(waiting.get(agent.id, 0) for agent in agents),
    )


def seen_state(index: "SearchIndex", principal: "Principal | None") -> "IndexState":
    """The state of the index, its numbers those of what the principal may see."""
    if principal is None:
        return index.state
    agents = visible_agents(index, principal)
    tools = index.tool_ids_of([agent.id for agent in agents])
    return replace(index.state, agents=len(agents), tools=sum(map(len, tools.values())))


_READ_AT_ONCE = 1_000
_SHOWN_CHARS = 100
_NOBODY = "?"
"""No agent's id."""
_ID = re.compile(r"[0-9]{12,}-[0-9]{6,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """Which changes. `since`: as the log writes times, empty: ever; `after`: older than this change, empty: all."""

    since: str = ""
    agent_id: str = ""
    after: str = ""
    limit: int | None = None

    @staticmethod
    def of(since: str, agent_id: str, after: str, limit: int | None) -> "ChangesQuery":
        """Raises InvalidQuery."""
        if limit is not None:
            check_limit(limit)
        if after and not _ID.fullmatch(after):
            raise InvalidQuery(
                "this is no place in the log of changes: it begins at the id of a change, or at its cursor"
            )
        # What cannot be an id is nobody's, and neither a URL nor every database takes any text.
        agent = _NOBODY if agent_id and name_fault(agent_id) else agent_id
        return ChangesQuery(since=_in_utc(since), agent_id=agent, after=after, limit=limit)


def _in_utc(since: str) -> str:
    """Raises InvalidQuery."""
    if not since:
        return ""
    try:
        moment = datetime.fromisoformat(since)
        in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        excerpt = repr(since)[:_SHOWN_CHARS]
        raise InvalidQuery(f"since takes a time in ISO 8601, such as 2026-05-01T12:00:00, not {excerpt}") from None
    return in_utc.isoformat(timespec="microseconds")


def seen_changes(session: "GraphSession", query: ChangesQuery, principal: "Principal | None") -> "Page[Change]":
    """The newest first: of the agents that the principal may see now, since they were last made known."""
    state, some = read_state(session), None if principal is None else _Visibility.by(session, principal)
    changes = _read(session, query, some)
    items = list(changes if query.limit is None else islice(changes, min(query.limit, sys.maxsize)))
    more = query.limit is not None and next(changes, None) is not None
    return Page(items=tuple(items), revision=state.revision if state else 0, following=items[-1].id if more else "")


@dataclass(frozen=True, slots=True)
class _Visibility:
    """What of the log a principal may see: the agents, each since when, and the names of sources."""

    since: "Mapping[str, str]"
    sources: Collection[str]

    @staticmethod
    def by(session: "GraphSession", principal: "Principal") -> "_Visibility":
        """An agent of the same id that was there before it, and is gone, is another one, which others saw."""
        settings = read_settings(session)
        agents = (overlaid(row.agent, settings) for row in read_agents(session).values())
        visible_ids = {agent.id for agent in agents if visible(agent, principal)}
        since: dict[str, str] = {}
        claims = [claim for claim in read_claims(session) if claim.agent_id in visible_ids]
        for claim in claims:
            since[claim.agent_id] = min(claim.since, since.get(claim.agent_id, claim.since))
        return _Visibility(since, {claim.source for claim in claims})

    def may_show(self, change: "Change") -> bool:
        return change.at >= self.since[change.agent_id]

    def show_change(self, change: "Change") -> "Change":
        """Without the name of a source that has nothing any more which the principal may see."""
        source = change.source if change.source in self.sources else ""
        return replace(change, source=source, flags=seen_flags(change.flags, self.since.__contains__))


def _read(session: "GraphSession", query: ChangesQuery, some: _Visibility | None) -> "Iterator[Change]":
    agents = [query.agent_id] if query.agent_id else None
    if some:
        agents = [agent_id for agent_id in some.since if query.agent_id in ("", agent_id)]
    before = query.after
    while True:
        part = read_changes_of(session, agents, since=query.since, before=before, limit=_READ_AT_ONCE)
        yield from part if some is None else (some.show_change(change) for change in part if some.may_show(change))
        if len(part) < _READ_AT_ONCE:
            return
        before = part[-1].id


def with_members(index: "SearchIndex", filters: Filters, principal: Principal | None) -> Filters:
    """The filters with the ids of what is `within` and in the `toolset`. Raises UnknownName as `browse_index`."""
    if filters.toolset:
        toolset = seen_toolset(index, filters.toolset, principal)
        filters = narrow(filters, frozenset([*toolset.includes, *toolset.members]))
    if not filters.within:
        return filters
    members = current_members(index, filters.within, principal)
    return narrow(filters, members.union(map(owner_of, members)))
