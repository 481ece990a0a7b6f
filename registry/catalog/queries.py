"""What somebody may see of a registry: lists in parts, and the log of changes.

A function here looks at one index, so that what it gives is of one revision whatever is published meanwhile.

The graph around some nodes, as somebody sees it: by its own edges, by likeness, and by what is called after what.
"""

import json
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice, zip_longest
from typing import Any, Literal, cast

from waygraph.registry.access.visibility import as_seen, fits, narrow, seen_flags, visible
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
from waygraph.registry.index.names import agent_named, seen_tools, visible_agents
from waygraph.registry.index.search_index import Leg, Scope, SearchIndex
from waygraph.registry.model.changes import (
    About,
    Change,
    Claim,
    IndexState,
    ListedAgent,
    Page,
    SourceSummary,
    Standing,
    Waiting,
)
from waygraph.registry.model.errors import InvalidQuery, UnknownName
from waygraph.registry.model.identity import name_fault, stated_words, tool_id
from waygraph.registry.model.nouns import ONLINE, Agent, Filters, Principal, Tool, canonical_json, notices_of, word_of
from waygraph.registry.model.pictures import EDGE_KINDS, EdgeKind, GraphEdge, GraphNode, Neighbourhood, NodeKind
from waygraph.registry.model.tool_settings import mark_rejection, parse_rejections
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_limit
from waygraph.registry.operators.approval import waits
from waygraph.registry.operators.toolset import seen_toolset, seen_toolsets
from waygraph.registry.taxonomy.browse import current_members, seen_taxonomy


def about(index: SearchIndex, agent_id: str, principal: Principal | None) -> About:
    """Raises UnknownName."""
    return About(
        agent=agent_named(index, agent_id, principal),
        tools=tuple(seen_tools(index, index.tool_ids(agent_id), principal)),
        settings=index.settings().get(agent_id),
        sources=tuple(source.name for source in index.sources() if agent_id in source.agent_ids),
        revision=index.state.revision,
    )


def agents_page(
    index: SearchIndex, filters: Filters, principal: Principal | None, after: str, limit: int | None
) -> Page[ListedAgent]:
    """The agents whose id comes after `after`, at most `limit` of them."""
    fitting = {agent.id: agent for agent in visible_agents(index, principal) if fits(agent, filters)}
    part, following = part_of(list(fitting), after, limit)
    tools = index.tool_ids_of(part)
    items = tuple(ListedAgent(fitting[agent_id], len(tools[agent_id])) for agent_id in part)
    return Page(items=items, revision=index.state.revision, following=following)


AgentState = Literal["runs", "online", "waiting", "flagged", "hidden", "pinned", "unreachable", "failing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSearch:
    """Agents by what they say and how they stand. Within a field any value fits; all fields must fit; empty: no limit.

    `text`: words or parts of words, all of which stand in the id, the name, the description, a tag or a tool's id.
    """

    text: str = ""
    states: tuple[AgentState, ...] = ()
    sources: tuple[str, ...] = ()
    least_tools: int = 0


def search_agents(
    index: SearchIndex, search: AgentSearch, principal: Principal | None, why_not: Callable[[Agent], str]
) -> list[str]:
    """Ids of what the principal may see. `why_not`: why nothing runs an agent's tools; empty: it runs."""
    agents = visible_agents(index, principal)
    if search.sources:
        claims = {each for source in index.sources() if source.name in search.sources for each in source.agent_ids}
        agents = [agent for agent in agents if agent.id in claims]
    if search.states:
        agents = [agent for agent in agents if any(_is_in(state, agent, why_not) for state in search.states)]
    tools = index.tool_ids_of([agent.id for agent in agents]) if search.text or search.least_tools else {}
    words = search.text.casefold().split()
    return [
        agent.id
        for agent in agents
        if (not search.least_tools or len(tools[agent.id]) >= search.least_tools)
        and (not words or _holds(words, agent, tools[agent.id]))
    ]


def _is_in(state: AgentState, agent: Agent, why_not: Callable[[Agent], str]) -> bool:
    match state:
        case "runs":
            return not (agent.pending or why_not(agent))
        case "waiting":
            return agent.pending
        case "flagged":
            return bool(agent.flags)
        case "hidden" | "pinned":
            return bool(getattr(agent, state))
    return word_of(agent.status) == state


def _holds(words: Sequence[str], agent: Agent, tool_ids: Sequence[str]) -> bool:
    text = "\n".join((agent.id, agent.name, agent.description, *agent.tags, *tool_ids)).casefold()
    return all(word in text for word in words)


def tools_page(
    index: SearchIndex, agent_id: str | None, principal: Principal | None, after: str, limit: int | None
) -> Page[Tool]:
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


def seen_sources(
    index: SearchIndex, principal: Principal | None, agents: Collection[Agent] | None = None
) -> list[SourceSummary]:
    """Each with the claims on agents that the principal may see, and their failures; without any it is none for it.
    `agents`: those that the principal may see, where they were read already.

    A failure is over where the agent answers by now, to whichever source. What an older Waygraph kept of sources that
    never gave anything is left out.
    """
    sources = [each for each in index.sources() if each.seen_at or each.claims]
    if principal is None and not any(source.failures for source in sources):
        return sources  # without a look at all agents
    agents = visible_agents(index, principal) if agents is None else agents
    online_ids = {agent.id for agent in agents if agent.status == ONLINE}
    sources = [each.without_failures_of(online_ids) for each in sources]
    if principal is None:
        return sources
    parts = (source.limit_to({agent.id for agent in agents}) for source in sources)
    return [source for source in parts if source.claims]


def standing_sources(index: SearchIndex, principal: Principal | None) -> list[SourceSummary]:
    """As `seen_sources`, each with how the agents stand that it claims."""
    agents = {agent.id: agent for agent in visible_agents(index, principal)}
    pending = set(index.pending_tools())
    names = ((owner, name) for owner, each in index.settings().items() for name in parse_rejections(each.rejections))
    suspects = [each for owner, name in names if (each := tool_id(owner, name)) in pending]
    rejections = Counter(tool.agent_id for tool in index.tools(suspects) if tool.rejection)
    waiting = Counter(map(owner_of, pending)) - rejections
    suspects = [each for each in index.tools_with_notices() if owner_of(each) in agents]
    notices: dict[str, list[str]] = {}
    entities: list[Agent | Tool] = [*agents.values(), *seen_tools(index, suspects, principal)]
    for entity in entities:
        notices.setdefault(owner_of(entity.id), []).extend(entity.id for _ in notices_of(entity.flags))
    return [
        replace(source, standing=_standing([agents[each] for each in source.agent_ids], waiting, rejections, notices))
        for source in seen_sources(index, principal, agents.values())
    ]


def _standing(
    agents: Sequence[Agent], waiting: Counter[str], rejections: Counter[str], notices: Mapping[str, Sequence[str]]
) -> Standing:
    """`waiting`, `rejections`: how many tools of an agent wait, or were rejected. `notices`: of an agent and its tools
    the id of whose text each notice is.
    """
    ids = [each for agent in agents for each in notices[agent.id]]
    of_status: Counter[str] = Counter(word_of(agent.status) for agent in agents)
    return Standing(
        **of_status,
        pending=sum(agent.pending and not agent.rejection for agent in agents),
        pending_tools=sum(waiting[agent.id] for agent in agents),
        rejections=sum(bool(agent.rejection) + rejections[agent.id] for agent in agents),
        notices=len(ids),
        notices_at=next(iter(ids), ""),
    )


def seen_state(index: SearchIndex, principal: Principal | None) -> IndexState:
    """The state of the index, its numbers those of what the principal may see."""
    if principal is None:
        return index.state
    agents = visible_agents(index, principal)
    tools = index.tool_ids_of([agent.id for agent in agents])
    return replace(index.state, agents=len(agents), tools=sum(map(len, tools.values())))


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


def seen_waiting(session: GraphSession, principal: Principal | None, after: str, limit: int | None) -> Page[Waiting]:
    """What waits, was rejected, or is flagged and not approved, by id, as far as the principal may see it."""
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
    ids, following = part_of(sorted(waiting), after, limit)
    sources: dict[str, set[str]] = {}
    for claim in graph.claims:
        sources.setdefault(claim.agent_id, set()).add(claim.source)
    log = {agent_id: _newest_changes(session, agent_id, some) for agent_id in {owner_of(each) for each in ids}}
    texts = (_waiting_text(waiting[each], log[owner_of(each)], sources.get(owner_of(each), ())) for each in ids)
    return Page(items=tuple(texts), revision=state.revision if state else 0, following=following)


def _newest_changes(session: GraphSession, agent_id: str, some: _Visibility | None) -> Mapping[str, list[Change]]:
    """By tool (empty: the agent itself), what changed what it says, of the agent's newest ones, the newest first. None
    from before it came: it was another one then.
    """
    by_tool: dict[str, list[Change]] = {}
    for each in islice(_read(session, ChangesQuery(agent_id=agent_id), some), _READ_AT_ONCE):
        if each.what == "removed" and not each.tool:
            break
        if each.what != "rejected":
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


def with_members(index: SearchIndex, filters: Filters, principal: Principal | None) -> Filters:
    """The filters with the ids of what is `within` and in the `toolset`. Raises UnknownName as `browse_index`."""
    if filters.toolset:
        toolset = seen_toolset(index, filters.toolset, principal)
        filters = narrow(filters, frozenset([*toolset.includes, *toolset.members]))
    if not filters.within:
        return filters
    members = current_members(index, filters.within, principal)
    return narrow(filters, members.union(map(owner_of, members)))


TEXT_CHARS = 200
MOST_SIMILAR, LEAST_COSINE = 8, 0.3
MOST_FOLLOWERS, LEAST_CHANCE = 8, 0.02


def seen_neighbourhood(
    index: SearchIndex, around: Sequence[str], kinds: Collection[str], limit: int, principal: Principal | None
) -> Neighbourhood:
    """At most `limit` nodes: the centres, then their neighbours in turn, of each centre and kind the nearest first.

    Without `kinds` all edges count. Raises UnknownName for a centre that the principal may not see, or is not there.
    """
    view = _View(index, principal, kinds or EDGE_KINDS, around)
    centres = list(dict.fromkeys(map(view.require_node, around)))[:limit]
    edges_of = {centre: [*view.own_edges(centre), *view.near(centre)] for centre in centres}
    lists = (
        [edge.other(centre) for edge in edges if edge.kind == kind]
        for centre, edges in edges_of.items()
        for kind in EDGE_KINDS
    )
    in_turn = filter(None, chain.from_iterable(zip_longest(*lists)))
    nodes = list(dict.fromkeys([*centres, *in_turn]))[:limit]
    edges_of |= {node: view.own_edges(node) for node in nodes if node not in edges_of}
    others = {node: {edge.other(node) for edge in edges_of[node]}.difference(nodes) for node in nodes}
    edges = dict.fromkeys(chain.from_iterable(edges_of.values()))
    return Neighbourhood(
        revision=index.state.revision,
        nodes=tuple(view.describe(others, len(centres))),
        edges=tuple(edge for edge in edges if edge.start in others and edge.end in others),
    )


class _View:
    """What a principal sees of one index, by nodes."""

    def __init__(
        self, index: SearchIndex, principal: Principal | None, kinds: Collection[str], around: Collection[str]
    ) -> None:
        self._index, self._principal, self._kinds = index, principal, kinds
        taxonomy = seen_taxonomy(index, None, principal)
        paths = taxonomy.paths() if taxonomy else {}
        categories = {path: taxonomy.categories[each] for each, path in paths.items()} if taxonomy else {}
        agents = {agent.id: agent for agent in visible_agents(index, principal)}
        self._nouns: dict[str, dict[str, Any]] = {
            "agent": agents,
            "source": {source.name: source for source in seen_sources(index, principal, agents.values())},
            "toolset": {toolset.name: toolset for toolset in seen_toolsets(index, principal)},
            "category": categories,
        }
        # Of each node its edges, but for those to tools that agents own: these are many, and the index has them.
        self._edges: dict[str, list[GraphEdge]] = defaultdict(list)
        for name, source in self._nouns["source"].items():
            self._link("claims", f"source:{name}", map(_node_of, source.agent_ids))
        for name, toolset in self._nouns["toolset"].items():
            self._link("includes", f"toolset:{name}", map(_node_of, toolset.includes))
        for path, category in categories.items():
            children = (f"category:{paths[child]}" for child in category.children)
            # What stands in no category but the root has nothing in common.
            entities = category.holds if path or "category:" in around else ()
            self._link("holds", f"category:{path}", chain(children, map(_node_of, entities)))

    def _link(self, kind: EdgeKind, start: str, ends: Iterable[str]) -> None:
        for end in ends if kind in self._kinds else ():
            for node in (start, end):
                self._edges[node].append(GraphEdge(kind, start, end))

    def require_node(self, node: str) -> str:
        """The node itself. Raises UnknownName."""
        kind, _, name = node.partition(":")
        names = self._tool_ids(owner_of(name)) if kind == "tool" else self._nouns[kind]
        if name not in names:
            raise UnknownName(kind, name, names, some=True)
        return node

    def _tool_ids(self, agent_id: str) -> Sequence[str]:
        return self._index.tool_ids(agent_id) if agent_id in self._nouns["agent"] else ()

    def own_edges(self, node: str) -> list[GraphEdge]:
        """Those that the graph itself has."""
        kind, _, name = node.partition(":")
        edges = self._edges.get(node, [])
        if kind == "agent" and "owns" in self._kinds:
            return [*(GraphEdge("owns", node, f"tool:{tool}") for tool in self._tool_ids(name)), *edges]
        if kind == "tool" and "owns" in self._kinds:
            return [GraphEdge("owns", f"agent:{owner_of(name)}", node), *edges]
        return edges

    def near(self, node: str) -> Iterator[GraphEdge]:
        """By vectors, and by what is called after it; among what a route may name."""
        kind, _, name = node.partition(":")
        if kind not in ("agent", "tool"):
            return
        if "similar" in self._kinds:
            leg: Leg = "agent_vector" if kind == "agent" else "tool_vector"
            vector = self._index.vectors_of([name]).get(name)
            scope = Scope(principal=self._principal)
            # Without a vector there is no leg of vectors.
            hits = self._index.search([leg], vector, "", MOST_SIMILAR + 1, scope)
            for other, cosine in hits.scores_of(leg).items():
                if other != name and cosine >= LEAST_COSINE:  # one edge a pair, whichever of the two is a centre
                    start, end = sorted((node, _node_of(other)))
                    yield GraphEdge("similar", start, end, round(cosine, 3))
        if "follows" in self._kinds and self._index.transitions:
            chances = self._index.transitions.follows([name], self._principal)
            # Of agents too it is known what follows, as far as their tools leave it open.
            followers = [each for each in chances if ("/" in each) == ("/" in name) and each != name]
            for other in sorted(followers, key=lambda each: (-chances[each], each))[:MOST_FOLLOWERS]:
                if chances[other] >= LEAST_CHANCE:
                    yield GraphEdge("follows", node, _node_of(other), round(chances[other], 3))

    def describe(self, others: Mapping[str, Collection[str]], centres: int) -> Iterator[GraphNode]:
        """`others`: the neighbours of each that are not shown; the first nodes are the centres."""
        ids = [node.partition(":")[2] for node in others if node.startswith("tool:")]
        nouns = {**self._nouns, "tool": {tool.id: tool for tool in seen_tools(self._index, ids, self._principal)}}
        for place, node in enumerate(others):
            kind, _, name = node.partition(":")
            noun = nouns[kind][name]
            yield GraphNode(
                id=node,
                kind=cast("NodeKind", kind),
                name=noun.name or "all categories",
                description=getattr(noun, "description", "")[:TEXT_CHARS],
                centre=place < centres,
                more=len(others[node]),
            )


def _node_of(entity: str) -> str:
    return f"tool:{entity}" if "/" in entity else f"agent:{entity}"
