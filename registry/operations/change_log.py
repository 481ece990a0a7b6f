"""The log of changes, and what waits for an operator, as far as somebody may see them.

A function here looks at one revision of the graph.
"""

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from waygraph.registry.access.visibility import as_seen, seen_flags, visible
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    overlaid,
    read_agents,
    read_changes_of,
    read_claims,
    read_doubtful_tools,
    read_graph_view,
    read_settings,
    read_state,
)
from waygraph.registry.model.box_wishes import WishFile
from waygraph.registry.model.changes import Change, Claim, Page, Waiting
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.identity import name_fault, stated_words, tool_id
from waygraph.registry.model.nouns import Agent, Principal, Tool, canonical_json
from waygraph.registry.model.tool_settings import mark_rejection, parse_rejections
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_limit
from waygraph.registry.operations.catalog import part_of
from waygraph.registry.operators.approval import seen_wishes, waits

_READ_AT_ONCE = 1_000
_SHOWN_CHARS = 100
NOBODY = "?"
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
        agent = NOBODY if agent_id and name_fault(agent_id) else agent_id
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


def seen_changes(session: GraphSession, query: ChangesQuery, principal: Principal | None) -> Page[Change]:
    """The newest first: of the agents that the principal may see now, since they were last made known."""
    state, some = read_state(session), None if principal is None else _Visibility.by(session, principal)
    changes = _read(session, query, some)
    items = list(changes if query.limit is None else islice(changes, min(query.limit, sys.maxsize)))
    more = query.limit is not None and next(changes, None) is not None
    return Page(items=tuple(items), revision=state.revision if state else 0, following=items[-1].id if more else "")


_FOR_OPERATORS = frozenset({"tags", "questions"})


@dataclass(frozen=True, slots=True)
class _Visibility:
    """What of the log a principal may see: the agents, each since when, and the names of sources."""

    since: Mapping[str, Claim]
    sources: Collection[str]
    operates: bool

    @staticmethod
    def by(session: GraphSession, principal: Principal) -> "_Visibility":
        """An agent of the same id that was there before it, and is gone, is another one, which others saw."""
        settings = read_settings(session)
        agents = (overlaid(row.agent, settings) for row in read_agents(session).values())
        visible_ids = {agent.id for agent in agents if visible(agent, principal)}
        since: dict[str, Claim] = {}
        claims = [claim for claim in read_claims(session) if claim.agent_id in visible_ids]
        for claim in claims:
            since[claim.agent_id] = min(claim, since.get(claim.agent_id, claim), key=lambda each: each.order)
        return _Visibility(since, {claim.source for claim in claims}, principal.operates)

    def may_show(self, change: Change) -> bool:
        first = self.since[change.agent_id]
        return change.revision >= first.revision if first.revision else change.at >= first.since

    def show_change(self, change: Change) -> Change:
        """Without the name of a source that has nothing any more which the principal may see. By which new tags and
        questions something is found, which may wait, is for operators.
        """
        source, after = change.source if change.source in self.sources else "", change.after
        if not self.operates and _FOR_OPERATORS.intersection(change.fields):
            after = canonical_json({k: v for k, v in json.loads(after).items() if k not in _FOR_OPERATORS})
        return replace(change, source=source, after=after, flags=seen_flags(change.flags, self.since.__contains__))


def seen_waiting(
    session: GraphSession, principal: Principal | None, after: str, limit: int | None, file: WishFile
) -> Page[Waiting]:
    """What waits, was rejected, or is flagged and not approved, by id, as far as the principal may see it. `file` has
    what servers asked of their boxes.
    """
    graph, state = read_graph_view(session), read_state(session)
    shows, some = graph.view_for(principal), None if principal is None else _Visibility.by(session, principal)
    owners = read_doubtful_tools(session)
    for agent_id, setting in graph.settings.items():
        owners |= {tool_id(agent_id, name): agent_id for name in parse_rejections(setting.rejections) if name}
    visible_ids = [agent_id for agent_id in graph.agents if graph.shows(agent_id, principal)]
    items = graph.tools_of(sorted({*owners.values()}.intersection(visible_ids)))
    entities: list[Agent | Tool] = [graph.agents[agent_id].agent for agent_id in visible_ids]
    entities += [item.tool for of_agent in items.values() for item in of_agent if item.tool.id in owners]
    all_entities = (
        as_seen(mark_rejection(each, graph.settings.get(owner_of(each.id))), shows, principal) for each in entities
    )
    waiting = {each.id: each for each in all_entities if waits(each)}
    wishes = {each.id: each for each in seen_wishes(graph, file, principal)}
    ids, following = part_of(sorted({**waiting, **wishes}), after, limit)
    sources: dict[str, set[str]] = {}
    for claim in graph.claims:
        sources.setdefault(claim.agent_id, set()).add(claim.source)
    log = {agent_id: _newest_changes(session, agent_id, some) for agent_id in {owner_of(each) for each in ids}}
    texts = (
        wishes.get(each) or _waiting_text(waiting[each], log[owner_of(each)], sources.get(owner_of(each), ()))
        for each in ids
    )
    return Page(items=tuple(texts), revision=state.revision if state else 0, following=following)


def _newest_changes(session: GraphSession, agent_id: str, some: _Visibility | None) -> Mapping[str, list[Change]]:
    """By tool (empty: the agent itself), what changed what it says, of the agent's newest ones, the newest first. None
    from before it came: it was another one then.
    """
    by_tool: dict[str, list[Change]] = {}
    for each in islice(_read(session, ChangesQuery(agent_id=agent_id), some), _READ_AT_ONCE):
        if each.what == "removed" and not each.tool:
            break
        if each.what != "rejected" and (each.after_hash or each.what != "changed"):  # a grant changes no text
            by_tool.setdefault(each.tool, []).append(each)
        if each.is_arrival:
            break
    return by_tool


def _since_approval(changes: Sequence[Change], approved_hash: str) -> Change | None:
    """The last change, with those before it since the text that was approved, or since it came. The newest come first.

    Without texts from before where the log does not reach back so far.
    """
    run: list[Change] = []
    for each in changes:
        run.append(each)
        if each.what != "changed" or each.before_hash == approved_hash:
            break
    if not run:
        return None
    first = run[-1]
    is_known = first.what == "changed" and approved_hash in ("", first.before_hash)
    before, after = dict[str, Any](), dict[str, Any]()
    for each in run:
        before, after = before | json.loads(each.before), json.loads(each.after) | after
    before = before if is_known else {}
    names = {name for each in run for name in each.fields}
    return replace(
        run[0],
        what=first.what,
        fields=tuple(sorted(name for name in names if before.get(name) != after.get(name))),
        before_hash=first.before_hash,
        before=canonical_json(before),
        after=canonical_json(after),
        covered=tuple(sorted({name for each in run for name in each.covered})),
    )


def _waiting_text(entity: Agent | Tool, log: Mapping[str, list[Change]], sources: Collection[str]) -> Waiting:
    tool = entity.name if isinstance(entity, Tool) else ""
    change = _since_approval(log.get(tool, ()), entity.approved_hash)
    words = {name: value for name, value in stated_words(entity).items() if value != "{}"}
    arrival = next((each for each in log.get("", ()) if each.is_arrival), None)
    return Waiting(
        id=entity.id,
        agent_id=owner_of(entity.id),
        tool=tool,
        description=entity.description,
        content_hash=entity.content_hash,
        fields=tuple(words),
        chars=sum(len(value) if isinstance(value, str) else sum(map(len, value)) for value in words.values()),
        pending=entity.pending,
        rejection=entity.rejection,
        flags=entity.flags,
        sources=tuple(sorted(sources)),
        since=each.at if (each := change or arrival) else "",
        change=change,
    )


def _read(session: GraphSession, query: ChangesQuery, some: _Visibility | None) -> Iterator[Change]:
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
