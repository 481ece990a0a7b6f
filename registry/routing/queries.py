"""What somebody may see of a registry: lists in parts, an agent or tool by its name, and the log of changes.

A name means one of the agents and tools that somebody may see: the others are unknown, and never suggested.

A function here looks at one index, so that what it gives is of one revision whatever is published meanwhile.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from waygraph.registry.access.visibility import Shows, as_seen, fits, seen_flags, visible
from waygraph.registry.graph.read import overlaid, read_agents, read_changes_of, read_claims, read_settings, read_state
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.changes import About, ListedAgent, Page
from waygraph.registry.model.errors import InvalidQuery, UnknownName, nearest
from waygraph.registry.model.identity import call_name, call_prefix, name_fault, tool_id
from waygraph.registry.model.nouns import Agent, Principal, Tool, word_of
from waygraph.registry.model.taxonomy import Category, Taxonomy
from waygraph.registry.model.tool_settings import settings_of_tools
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_limit

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.model.changes import Change, IndexState, SourceSummary, Standing
    from waygraph.registry.model.nouns import Filters


_AGENTS_SUGGESTED_FROM = 3
"""How many agents' tools an unknown call name is compared with."""


def shows(index: SearchIndex, principal: Principal | None) -> Shows | None:
    """Whether the principal may see the agent of an id. None: it sees everything.

    Of all agents, not only of those that a search found; they are read when the first one is asked for.
    """
    if principal is None:
        return None
    agents = cache(index.agents)
    return lambda agent_id: agent_id in agents() and visible(agents()[agent_id], principal)


def visible_agents(index: SearchIndex, principal: Principal | None) -> list[Agent]:
    may_see = shows(index, principal)
    return [as_seen(agent, may_see) for agent in index.agents().values() if visible(agent, principal)]


def seen_taxonomy(index: SearchIndex, name: str | None, principal: Principal | None) -> Taxonomy | None:
    """The taxonomy of this name, None: the current one, with what the principal may see of it.

    A category is there if something below it is. None if there is no such taxonomy, if nothing of it may be seen, or
    if its words may be made of agents that the principal may not see.
    """
    whole, may_see = permitted_taxonomy(index, name, principal), shows(index, principal)
    return (
        whole if whole is None or may_see is None else prune_taxonomy(whole, lambda entity: may_see(owner_of(entity)))
    )


def permitted_taxonomy(index: SearchIndex, name: str | None, principal: Principal | None) -> Taxonomy | None:
    """The whole of it, for whoever leaves out what may not be found; None where `seen_taxonomy` is."""
    taxonomy = next(
        (each for each in index.taxonomies() if (each.current if name is None else each.name == name)), None
    )
    may_see = shows(index, principal)
    if taxonomy is None or may_see is None:
        return taxonomy
    if not (taxonomy.shown_to_all or all(may_see(agent_id) for agent_id in taxonomy.private)):
        return None
    return taxonomy if any(may_see(owner_of(entity)) for entity in taxonomy.below(taxonomy.root)) else None


def prune_taxonomy(whole: Taxonomy, may_see: Shows) -> Taxonomy | None:
    """Without what the build took, which tells how many there are in all."""
    remaining: dict[str, Category] = {}
    for category in reversed(list(whole.categories.values())):
        holds = {entity: by for entity, by in category.holds.items() if may_see(entity)}
        children = tuple(child for child in category.children if child in remaining)
        if holds or children:
            examples = tuple(entity for entity in category.examples if may_see(entity))
            remaining[category.id] = replace(category, holds=holds, children=children, examples=examples)
    if whole.root.id not in remaining:
        return None
    categories = dict(reversed(list(remaining.items())))
    return replace(whole, categories=categories, private=(), calls=0, prompt_tokens=0, completion_tokens=0)


def seen_tools(index: SearchIndex, ids: Sequence[str], principal: Principal | None) -> list[Tool]:
    """The tools of these ids, in that order, of agents that the principal may see. Raises KeyError."""
    may_see = shows(index, principal)
    return [as_seen(tool, may_see) for tool in index.tools(ids)]


def agent_named(index: SearchIndex, agent_id: str, principal: Principal | None) -> Agent:
    """Raises UnknownName."""
    match = index.agents().get(agent_id)
    if match is None or not visible(match, principal):
        raise UnknownName("agent", agent_id, (agent.id for agent in visible_agents(index, principal)))
    return as_seen(match, shows(index, principal))


def tool_named(index: SearchIndex, name: str, principal: Principal | None) -> Tool:
    """By id (`agent/tool`), else by call name. Raises UnknownName."""
    if "/" in name:
        owner = agent_named(index, name.partition("/")[0], principal)
        ids = index.tool_ids(owner.id)
        if name not in ids:
            raise UnknownName("tool", name, ids)
        return seen_tools(index, [name], principal)[0]
    for owner in _bearers(index, name, principal):
        matching_id = _tool_called(index, name, owner.id, index.tool_ids(owner.id))
        if matching_id:
            return seen_tools(index, [matching_id], principal)[0]
    raise UnknownName("tool", name, _call_names_near(index, name, principal), some=True)


def find_named(index: SearchIndex, name: str, principal: Principal | None) -> Agent | Tool:
    """The agent of that id, else the tool of that id or call name. Raises UnknownName."""
    agent = index.agents().get(name)
    if agent is not None and visible(agent, principal):
        return as_seen(agent, shows(index, principal))
    if "/" in name or "__" in name or _bearers(index, name, principal):
        return tool_named(index, name, principal)
    return agent_named(index, name, principal)


def find_all_named(
    index: SearchIndex, names: Iterable[str], principal: Principal | None
) -> "dict[str, tuple[str, str]]":
    """Of each name the id of the agent, and of the tool if it is one's; names that are unknown are left out.

    As `find_named`, but that nothing is suggested, and that the engine is asked once.
    """
    agents = index.agents()
    owners: dict[str, list[str]] = {}
    ids_by_name: dict[str, tuple[str, str]] = {}
    for name in names:
        if name in agents and visible(agents[name], principal):
            ids_by_name[name] = (name, "")
            continue
        among = [name.partition("/")[0]] if "/" in name else index.owners_called(name)
        owners[name] = [owner for owner in among if owner in agents and visible(agents[owner], principal)]
    tool_ids = index.tool_ids_of(list(dict.fromkeys(chain.from_iterable(owners.values()))))
    for name, among in owners.items():
        for owner in among:
            tool = (
                name if "/" in name and name in tool_ids[owner] else _tool_called(index, name, owner, tool_ids[owner])
            )
            if tool:
                ids_by_name[name] = (owner, tool)
                break
    return ids_by_name


def _bearers(index: SearchIndex, name: str, principal: Principal | None) -> list[Agent]:
    """The visible agents that may own a tool of this call name."""
    agents = index.agents()
    owners = (agents[agent_id] for agent_id in index.owners_called(name) if agent_id in agents)
    return [owner for owner in owners if visible(owner, principal)]


def _tool_called(index: SearchIndex, name: str, owner: str, ids: Sequence[str]) -> str | None:
    """The id among `ids`, all of one owner's tools, of the tool with this call name: its source's, or an operator's."""
    matching_id = _tool_stated(name, owner, ids)
    if matching_id or not settings_of_tools(index.settings().get(owner)):
        return matching_id
    return next((tool.id for tool in index.tools(ids) if tool.call_name == name), None)


def _tool_stated(name: str, owner: str, ids: Iterable[str]) -> str | None:
    """The id that makes this call name."""
    plain = name.removeprefix(f"{owner}__")
    if call_name(owner, plain) == name:  # no other tool has it
        plain_id = tool_id(owner, plain)
        return plain_id if plain_id in ids else None
    return next((each for each, candidate in _call_names(owner, ids) if candidate == name), None)


def _call_names(owner: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of each tool its id and its call name."""
    return ((each, call_name(owner, each.partition("/")[2])) for each in ids)


def _call_names_near(index: SearchIndex, name: str, principal: Principal | None) -> list[str]:
    """The call names of the tools of those visible agents that were probably meant."""
    owners = _bearers(index, name, principal)
    if not owners:
        by_prefix = {call_prefix(agent.id).rstrip("_"): agent for agent in visible_agents(index, principal)}
        near = nearest(name.partition("__")[0], by_prefix, _AGENTS_SUGGESTED_FROM)
        owners = [by_prefix[prefix] for prefix in near]
    tools = index.tool_ids_of([owner.id for owner in owners])
    return [each for owner in owners for _, each in _call_names(owner.id, tools[owner.id])]


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
