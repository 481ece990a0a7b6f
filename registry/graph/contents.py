"""One revision of the graph, read in parts: agents, tools and what is said of them, and every other kind of value."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Protocol, Self

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    RegistryState,
    StoredAgent,
    StoredTool,
    Vectors,
    overlaid,
    read_agents,
    read_changes,
    read_claims,
    read_settings,
    read_sources,
    read_state,
    read_tools,
    read_transitions,
    read_vectors,
)
from waygraph.registry.model.changes import Change, Claim, OperatorSettings, SourceSummary
from waygraph.registry.model.errors import RegistryNotFound
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.transitions import Transition

_CHECK_COUNTS = load("check/counts")


class NounValue(Protocol):
    """A value that has a name of its own among its kind, and a form as JSON."""

    @property
    def name(self) -> str: ...

    def as_json(self) -> dict[str, Any]: ...

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        """Of what `as_json` wrote. Raises KeyError, TypeError, ValueError for anything else."""
        ...


class GraphNoun[T: NounValue](Protocol):
    """A kind of value that a registry keeps beside agents and tools, such as toolsets: what the rooms above know of it.

    What indexes, exports, copies, checks or changes a registry asks this; `storage.noun_list` lists all kinds.
    """

    name: str
    """In the plural, as an export, the file of a generation and a finding of `doctor` call them."""
    kind: type[T]
    advice: str = ""
    """What to do where `faults` finds any."""

    def read(self, session: GraphSession) -> list[T]:
        """All, in order of their names."""
        ...

    def put(self, session: GraphSession, value: T, vectors: Vectors) -> None:
        """Into a graph that has none of the name.

        `vectors`: all that `read_vectors` gave of another graph, float32 of shape (dimension,).
        """
        ...

    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> AbstractContextManager[None]:  # noqa: ARG002
        """Around a transaction that changes these agents, or whose tools; None: all of their vectors."""
        return nullcontext()

    def stamp(self, session: GraphSession) -> str | None:  # noqa: ARG002
        """Another text where `read` gives other values; None: only `read` tells."""
        return None

    def read_vectors(self, session: GraphSession) -> Vectors:  # noqa: ARG002
        """By node id: float32 of shape (dimension,)."""
        return {}

    def counts(self, values: Sequence[T]) -> dict[str, int]:  # noqa: ARG002
        """How many nodes and edges they make, by the names of `check/counts`; of one node each, `read` tells all."""
        return {}

    def rows(self, value: T) -> int:  # noqa: ARG002
        """How many rows `put` writes, about."""
        return 1

    def copy_fault(self, value: T) -> str:  # noqa: ARG002
        """Why it cannot be copied as it is; empty: it can."""
        return ""

    def faults(self, contents: "Contents") -> Iterable[str]:  # noqa: ARG002
        """What does not agree with the rest of the graph."""
        return ()

    def sound(self, contents: "Contents") -> str:  # noqa: ARG002
        """What `doctor` says where there is no fault."""
        return "all there"


class Contents:
    """One revision of the graph as sources state it: each part is read once, when it is first asked for.

    Lists and maps are in order of id. Parts that are read may be asked for after the session has ended.
    """

    def __init__(self, session: GraphSession) -> None:
        self.session = session
        self._values: dict[str, Sequence[Any]] = {}
        self._vectors: dict[str, Vectors] = {}

    def read(self, *parts: str) -> Self:
        """Reads these parts now."""
        for part in parts:
            getattr(self, part)
        return self

    def values[T: NounValue](self, noun: GraphNoun[T]) -> Sequence[T]:
        """All of a kind, in order of their names."""
        if noun.name not in self._values:
            self._values[noun.name] = noun.read(self.session)
        return self._values[noun.name]

    def vectors_of(self, noun: GraphNoun[Any]) -> Vectors:
        """By node id: float32 of shape (dimension,)."""
        if noun.name not in self._vectors:
            self._vectors[noun.name] = noun.read_vectors(self.session)
        return self._vectors[noun.name]

    @cached_property
    def state(self) -> RegistryState:
        """Raises RegistryNotFound if the graph is not a registry."""
        if (state := read_state(self.session)) is None:
            raise RegistryNotFound("the graph")
        return state

    @cached_property
    def agents(self) -> dict[str, StoredAgent]:
        return read_agents(self.session)

    @cached_property
    def tools(self) -> list[StoredTool]:
        """One that has two owners is here twice."""
        return read_tools(self.session)

    @cached_property
    def claims(self) -> list[Claim]:
        return read_claims(self.session)

    @cached_property
    def sources(self) -> list[SourceSummary]:
        return read_sources(self.session, self.claims)

    @cached_property
    def settings(self) -> dict[str, OperatorSettings]:
        return read_settings(self.session)

    @cached_property
    def changes(self) -> list[Change]:
        return read_changes(self.session)

    @cached_property
    def transitions(self) -> list[Transition]:
        return read_transitions(self.session)

    @cached_property
    def vectors(self) -> Vectors:
        """Of agents and tools, by id: float32 of shape (dimension,)."""
        return read_vectors(self.session, agents=list(self.agents), tools=[item.tool.id for item in self.tools])

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """What the graph itself counts, by the names of `check/counts`."""
        return self.session.run(_CHECK_COUNTS)[0]

    @property
    def vector_keys(self) -> dict[str, str]:
        """Entity id → of which texts and model its vector is; empty without one."""
        keys = {agent_id: item.vector_key for agent_id, item in self.agents.items()}
        return keys | {item.tool.id: item.vector_key for item in self.tools}

    @property
    def overlaid_agents(self) -> dict[str, Agent]:
        """Each with the operator's word over its source's."""
        return {agent_id: overlaid(item.agent, self.settings) for agent_id, item in self.agents.items()}

    def tools_by_agent(self) -> dict[str, list[Tool]]:
        tools: dict[str, list[Tool]] = {agent_id: [] for agent_id in self.agents}
        for item in self.tools:
            tools[item.tool.agent_id].append(item.tool)
        return tools
