"""A whole revision, vectors included, and how it comes into an empty registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.cypher import load
from waygraph.registry.graph.read import Stamp
from waygraph.registry.graph.write import NewVectors, write_changes
from waygraph.registry.model.changes import AgentEntry, ChangeSet, Claim, IndexState, OperatorSettings
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.storage.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOW = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`vectors` is float32 of shape (agents + tools, dimension), agents first; of dimension 0 without an embedder."""

    state: IndexState
    agents: Sequence[Agent]
    tools: Sequence[Tool]
    vectors: "NDArray[np.float32]"


def index_order(agents: Mapping[str, Agent], owners: set[str]) -> list[Agent]:
    """Agents with tools by id, then those without by id."""
    return sorted(agents.values(), key=lambda agent: (agent.id not in owners, agent.id))


def load_snapshot(store: Store, content: Snapshot) -> None:
    """Its agents are stored as their source would state them; pinned and hidden ones by the operator's word."""
    tools: dict[str, list[Tool]] = {agent.id: [] for agent in content.agents}
    for tool in content.tools:
        tools[tool.agent_id].append(tool)
    entries = [AgentEntry(key=agent.id, agent=agent, tools=tuple(tools[agent.id])) for agent in content.agents]
    said = [
        OperatorSettings(agent_id=agent.id, pinned=agent.pinned, hidden=agent.hidden)
        for agent in content.agents
        if agent.pinned or agent.hidden
    ]
    changes = ChangeSet(
        source="test",
        namespace="test",
        written=tuple(entries),
        created_agents=tuple(agent.id for agent in content.agents),
        created_tools=tuple(tool.id for tool in content.tools),
        claims=tuple(Claim(source="test", agent_id=agent.id, key=agent.id, hash="") for agent in content.agents),
        operator=tuple(said),
    )
    _write(store, content, changes)


def _write(store: Store, content: Snapshot, changes: ChangeSet) -> None:
    ids = [agent.id for agent in content.agents] + [tool.id for tool in content.tools]
    state = content.state
    vectors = NewVectors(vectors=dict(zip(ids, content.vectors, strict=True)) if state.dimension else {}, keys={})
    with store.writing() as (engine, keep, prepare, _):
        if state.dimension:
            prepare(state.dimension)
        props = {
            "revision": state.revision,
            "embedder": state.embedder,
            "embedder_spec": state.embedder_spec,
            "texts": state.texts,
            "schema_version": state.schema_version,
        }
        engine.run(load("state/create"), props=props)
        with engine.transaction() as session, keep(session, [agent.id for agent in content.agents]):
            write_changes(session, changes, vectors, Stamp(now=NOW, revision=state.revision), max_changes_kept=0)
