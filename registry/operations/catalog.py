"""What a registry holds, as far as somebody sees it: agents, tools, categories, sources, and how much there is.

A function here looks at one index, so that what it gives is of one revision whatever is published meanwhile.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal

from annotated_types import MaxLen, MinLen

from waygraph.registry.access.visibility import fits, narrow
from waygraph.registry.index.names import agent_named, seen_tools, tool_named, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import About, IndexState, ListedAgent, Page, SourceSummary, Standing, Status
from waygraph.registry.model.identity import tool_id
from waygraph.registry.model.nouns import ONLINE, Agent, Filters, Principal, Tool, notices_of, word_of
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.model.tool_settings import parse_rejections
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import FILTER_LISTS, MAX_ID_CHARS, check_limit, checked_filters
from waygraph.registry.operations.request import Graph, Id, PartRequest, Request, make_read, path_segment

NO_FILTERS = Filters()


def filters_sent(filters: Filters) -> dict[str, Any]:
    """As parameters of an address."""
    values = {name: getattr(filters, field) for name, field in FILTER_LISTS.items()}
    values |= {"reachable": filters.reachable, "within": filters.within, "toolset": filters.toolset}
    return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class ListAgents(PartRequest[ListedAgent]):
    """The agents, by id, each with the number of its tools."""

    operation = make_read("agents", "/v1/agents", "Agents")
    listing = "agents"

    filters: Filters = NO_FILTERS

    def sent_fields(self) -> dict[str, Any]:
        place = {name: value for name, value in super().sent_fields().items() if name != "filters"}
        return {**filters_sent(checked_filters(self.filters)), **place}

    def answer(self, graph: Graph, principal: Principal | None) -> Page[ListedAgent]:
        given = checked_filters(self.filters)

        def read_page(index: SearchIndex) -> Page[ListedAgent]:
            return agents_page(index, with_members(index, given, principal), principal, self.start, self.most)

        return graph.look(read_page)

    def write_item(self, item: ListedAgent, transport: TransportFilter) -> Shape:
        return shapes.agent_line(item, transport)

    def read_item(self, document: Any) -> ListedAgent:
        return ListedAgent(shapes.read(Agent, document), document["tools"])


@dataclass(frozen=True, kw_only=True)
class GetAgent(Request[Agent]):
    """An agent alone."""

    operation = make_read("agent", "/v1/agents/{agent_id}", "AgentFacts")

    agent_id: Id
    """An agent's id."""

    def answer(self, graph: Graph, principal: Principal | None) -> Agent:
        return graph.look(lambda index: agent_named(index, self.agent_id, principal))

    def read(self, document: Any) -> Agent:
        return shapes.read(Agent, document["agent"])


@dataclass(frozen=True, kw_only=True)
class WholeRequest[A](Request[A]):
    """Answered with the schemas of tools."""

    def sent_fields(self) -> dict[str, Any]:
        return {**super().sent_fields(), "schema": True}


@dataclass(frozen=True, kw_only=True)
class GetAbout(WholeRequest[About]):
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""

    operation = GetAgent.operation
    noun = About

    agent_id: Id
    """An agent's id."""

    def answer(self, graph: Graph, principal: Principal | None) -> About:
        return graph.look(lambda index: about(index, agent_id=self.agent_id, principal=principal))


@dataclass(frozen=True, kw_only=True)
class ListTools(WholeRequest[Page[Tool]], PartRequest[Tool]):
    """The tools of all agents, or of one, by id."""

    operation = make_read("tools", "/v1/tools", "Tools")
    listing, noun = "tools", Tool

    agent: Annotated[str, MaxLen(MAX_ID_CHARS)] | None = None
    """Only the tools of this agent, by its id."""

    def sent_fields(self) -> dict[str, Any]:
        if self.agent is not None:
            path_segment("agent", self.agent)  # what no service takes is no name
        return super().sent_fields()

    def answer(self, graph: Graph, principal: Principal | None) -> Page[Tool]:
        return graph.look(lambda index: tools_page(index, self.agent, principal, self.start, self.most))


@dataclass(frozen=True, kw_only=True)
class GetTool(WholeRequest[Tool]):
    """One tool, by its id or its call name."""

    operation = make_read("tool", "/v1/tools/{tool_id:path}", "DefinedTool")
    noun = Tool

    tool_id: Annotated[str, MinLen(1)]
    """A tool's id, or the name under which hosts call it."""

    def answer(self, graph: Graph, principal: Principal | None) -> Tool:
        return graph.look(lambda index: tool_named(index, self.tool_id, principal))


@dataclass(frozen=True, kw_only=True)
class ListSources(Request[list[SourceSummary]]):
    """The sources, each with the agents that it claims, what people call them, and which this service follows."""

    operation = make_read("sources", "/v1/sources", "Sources")

    def answer(self, graph: Graph, principal: Principal | None) -> list[SourceSummary]:
        return graph.look(lambda index: standing_sources(index, principal))

    def write(self, answer: Sequence[SourceSummary], transport: TransportFilter = None) -> Shape:
        return shapes.sources(answer, transport)

    def read(self, document: Any) -> list[SourceSummary]:
        return shapes.read_sources(document)


@dataclass(frozen=True, kw_only=True)
class GetStatus(Request[Status]):
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""

    operation = make_read("status", "/v1/status", "Status")

    def answer(self, graph: Graph, principal: Principal | None) -> Status:
        def read_status(index: SearchIndex) -> Status:
            sources = seen_sources(index, principal)
            return Status(
                location=graph.location,
                state=seen_state(index, principal),
                sources=len(sources),
                failures=tuple(failure for source in sources for failure in source.failures),
            )

        return graph.look(read_status)

    def write(self, answer: Status, transport: TransportFilter = None) -> Shape:
        return shapes.status(answer, transport)

    def read(self, document: Any) -> Status:
        return shapes.read_status(document)


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


def with_members(index: SearchIndex, filters: Filters, principal: Principal | None) -> Filters:
    """The filters with the ids of what is `within` and in the `toolset`. Raises UnknownName as `browse_index`."""
    if filters.toolset:
        from waygraph.registry.operators.toolset import seen_toolset

        toolset = seen_toolset(index, filters.toolset, principal)
        filters = narrow(filters, frozenset([*toolset.includes, *toolset.members]))
    if not filters.within:
        return filters
    from waygraph.registry.taxonomy.browse import current_members

    members = current_members(index, filters.within, principal)
    return narrow(filters, members.union(map(owner_of, members)))
