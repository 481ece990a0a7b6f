"""A snapshot of one revision, and what a process keeps of it for the next generation."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import RegistryState, StoredTool, read_state, read_tools, read_tools_of
from waygraph.registry.index.call_graph import CallGraph
from waygraph.registry.index.search_index import agent_document, agent_names, tool_document, tool_names, tool_record
from waygraph.registry.model.changes import IndexState, OperatorSettings, SourceSummary
from waygraph.registry.model.nouns import Agent, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Agents (as they hold now) in index order, tools in order of id, and a vector for each.

    Index order of agents: those with tools first, then those without, each by id. `vectors` is float32 of shape
    (agents + tools, dimension), agents first; of dimension 0 if the registry has no embedder. `vector_keys` says
    of which texts and model each row was made.
    """

    state: IndexState
    agents: Sequence[Agent]
    tools: Sequence[Tool]
    vectors: "NDArray[np.float32]"
    vector_keys: Sequence[str]
    sources: Sequence[SourceSummary]
    calls: CallGraph = field(default_factory=CallGraph)
    nouns: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """By file of the generation: the values of a kind as JSON."""
    settings: Sequence[OperatorSettings] = ()
    stated: Sequence[Tool] = ()
    """The tools of which operators said something, as their sources state them; `tools` are as they hold now."""


def index_order(agents: Mapping[str, Agent], owners: set[str]) -> list[Agent]:
    """Agents with tools by id, then those without by id."""
    return sorted(agents.values(), key=lambda agent: (agent.id not in owners, agent.id))


@dataclass(frozen=True, slots=True)
class IndexedTool:
    """`words` are the terms of its text, `record` its line, `names` what it answers to."""

    tool: Tool
    owner: Agent
    words: Sequence[str]
    record: bytes
    names: tuple[str, ...]

    def still_holds(self, tool: Tool, owner: Agent) -> bool:
        return self.tool == tool and (self.owner.id, self.owner.name) == (owner.id, owner.name)


@dataclass(frozen=True, slots=True)
class IndexedAgent:
    agent: Agent
    tools: Sequence[IndexedTool]
    words: Sequence[str]
    names: tuple[str, ...]

    def still_holds(self, agent: Agent, tools: Sequence[IndexedTool]) -> bool:
        same_tools = len(tools) == len(self.tools) and all(a is b for a, b in zip(tools, self.tools, strict=True))
        return same_tools and self.agent == agent


@dataclass(frozen=True, slots=True)
class IndexedEntities:
    """By id; of agents and tools in the snapshot's order."""

    agents: Mapping[str, IndexedAgent] = field(default_factory=dict)
    tools: Mapping[str, IndexedTool] = field(default_factory=dict)


def make_entities(snapshot: Snapshot, before: IndexedEntities) -> IndexedEntities:
    """Of all entities; what was made before and still holds is not made again."""
    owners = {agent.id: agent for agent in snapshot.agents}
    tools = {tool.id: _index_tool(tool, owners[tool.agent_id], before) for tool in snapshot.tools}
    by_agent: dict[str, list[IndexedTool]] = {agent.id: [] for agent in snapshot.agents}
    for entity in tools.values():
        by_agent[entity.tool.agent_id].append(entity)
    return IndexedEntities(
        {agent.id: _index_agent(agent, by_agent[agent.id], before) for agent in snapshot.agents}, tools
    )


def _index_tool(tool: Tool, owner: Agent, before: IndexedEntities) -> IndexedTool:
    former = before.tools.get(tool.id)
    if former is not None and former.still_holds(tool, owner):
        return former
    line = json.dumps(tool_record(tool), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    return IndexedTool(tool, owner, tool_document(owner, tool), line, tuple(tool_names(owner, tool)))


def _index_agent(agent: Agent, tools: Sequence[IndexedTool], before: IndexedEntities) -> IndexedAgent:
    former = before.agents.get(agent.id)
    if former is not None and former.still_holds(agent, tools):
        return former
    words = agent_document(agent, (part.tool for part in tools))
    return IndexedAgent(agent, tools, words, tuple(agent_names(agent)))


KEPT_TOOLS = 20_000
"""Of a registry with more nothing is kept; so many take about 100 MB."""


@dataclass(slots=True)
class GenerationCache:
    """A process that publishes once keeps nothing, and a large registry is not held in memory.

    Tools are read anew only of agents that were written since: that is known where every write in between was noted
    here, and the graph was at the kept revision before.
    """

    _entities: IndexedEntities = field(default_factory=IndexedEntities)
    vectors: "Rows" = field(default_factory=dict)
    """Vector key → vector of the generation before: float32 of shape (dimension,); empty if they are not kept.

    A key is made of model and text.
    """
    _tools: Sequence[StoredTool] = ()
    _of: RegistryState | None = None
    """The state of which `_tools` are all; None: nothing is kept."""
    _changed_agents: set[str] = field(default_factory=set)
    _writes: int = 0
    _has_published: bool = False

    def begin(self, session: GraphSession) -> None:
        """A session of writes begins. What another process wrote meanwhile makes all that is kept void."""
        self._changed_agents, self._writes = set(), 0
        if self._of is not None and read_state(session) != self._of:
            self._of, self.vectors = None, {}

    @contextmanager
    def note(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:  # noqa: ARG002
        """Around a transaction that changes these agents, or whose tools; None: any."""
        self._writes += 1
        if agent_ids is None:
            self._of = None
        else:
            self._changed_agents |= set(agent_ids)
        yield

    def tools_now(self, session: GraphSession, state: RegistryState) -> Sequence[StoredTool]:
        """All tools, by id."""
        tools = read_tools(session) if not self._reaches(state) else self._bring_up(session)
        if self._has_published and len(tools) <= KEPT_TOOLS:
            self._tools, self._of = tools, state
        else:
            self._tools, self._of = (), None
        self._changed_agents, self._writes = set(), 0
        return tools

    def make_entities(self, snapshot: Snapshot) -> IndexedEntities:
        """What the generation of this snapshot holds of each entity."""
        entities = make_entities(snapshot, self._entities)
        keeps = self._of is not None
        self._entities = entities if keeps else IndexedEntities()
        rows = zip(snapshot.vector_keys, snapshot.vectors, strict=True) if keeps else ()
        self.vectors = {key: row for key, row in rows if key}
        self._has_published = True
        return entities

    def _reaches(self, state: RegistryState) -> bool:
        return self._of is not None and state.revision == self._of.revision + self._writes

    def _bring_up(self, session: GraphSession) -> Sequence[StoredTool]:
        others = [each for each in self._tools if each.tool.agent_id not in self._changed_agents]
        tools = read_tools_of(session, sorted(self._changed_agents))
        return sorted([*others, *tools], key=lambda each: each.tool.id)
