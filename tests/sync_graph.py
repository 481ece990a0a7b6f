"""The write side of a registry on a graph without an index, and what is synchronised into it."""

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.identity import part_of
from waygraph.ingest.sync.plan import plan
from waygraph.registry.embedding.embedder import Progress, Role
from waygraph.registry.embedding.factory import ChosenEmbedder
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.read import overlaid, read_graph_view
from waygraph.registry.graph.schema import migrate
from waygraph.registry.model.changes import AgentEntry, ChangeSet, Rejected, Written
from waygraph.registry.model.identity import agent_id, sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import Agent, Tool, canonical_json
from waygraph.registry.model.settings import Settings
from waygraph.registry.operators.approval import changed_setting, put_setting
from waygraph.registry.storage.noun_list import NOUNS
from waygraph.registry.writer import WriteSession, Writing, prepare_nothing

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Matrix


class CountingEmbedder:
    """Vectors from a text's hash; keeps the texts that it was given."""

    fingerprint, dimension = "counting@1", 4

    def __init__(self) -> None:
        self.texts: list[str] = []

    @property
    def embedded(self) -> int:
        return len(self.texts)

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":  # noqa: ARG002
        self.texts += texts
        rows = [np.random.default_rng(list(text.encode())).normal(size=4) for text in texts]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), 4)


@dataclass
class Graph:
    """The write side of a registry: an engine in memory, an embedder that counts, a clock that ticks."""

    engine: GrafeoEngine
    session: WriteSession
    embedder: CountingEmbedder

    def sync(self, manifest: Manifest) -> tuple[ChangeSet, Written]:
        """Planned over the part of the graph that the manifest names."""
        graph = read_graph_view(self.engine, part_of(manifest))
        changes = plan(graph, manifest)
        return changes, self.session.commit(changes, graph=graph)

    def say(self, agent: str, **changes: object) -> None:
        put_setting(self.session, changed_setting(self.session.read_graph_view(), agent, changes))

    def agents(self) -> dict[str, Agent]:
        """As they hold now, operators' words included."""
        held = self.session.read_graph_view()
        return {name: overlaid(stored.agent, held.settings) for name, stored in held.agents.items()}

    def tools(self) -> dict[str, Tool]:
        held = self.session.read_graph_view()
        return {item.tool.id: item.tool for items in held.tools_of(held.agents).values() for item in items}

    @property
    def revision(self) -> int:
        state = self.session.state()
        return state.revision if state else 0


def new_graph() -> Graph:
    engine = GrafeoEngine.open(None)
    migrate(engine, "here", "2026-01-01")
    embedder, ticks = CountingEmbedder(), itertools.count()
    session = WriteSession(
        Writing(engine, lambda _session, _ids: nullcontext(), prepare_nothing, None),
        lambda _: ChosenEmbedder(embedder=embedder, spec="counting"),
        NOUNS,
        Settings(max_changes_kept=100),
        texts="contextual",
        clock=lambda: f"2026-01-01T00:00:00.{next(ticks):06d}+00:00",
    )
    return Graph(engine, session, embedder)


def entry(
    key: str, text: str = "does things", tools: Sequence[str] = ("run",), *, transport: str = "", schema: str = "{}"
) -> AgentEntry:
    """`transport` names a launch; empty: the source does not say."""
    name = agent_id(key)
    launch = canonical_json({"command": transport}) if transport else ""
    agent = sealed_agent(Agent(id=name, name=key, description=text, transport=launch))
    made = (
        Tool(id=tool_id(name, t), agent_id=name, name=t, description=f"{t}: {text}", input_schema=schema) for t in tools
    )
    return AgentEntry(key=key, agent=agent, tools=tuple(map(sealed_tool, made)))


def manifest(source: str, *entries: AgentEntry, rank: int = 0, rejected: tuple[Rejected, ...] = ()) -> Manifest:
    return Manifest(source=source, namespace=f"ns-{source}", rank=rank, entries=entries, rejected=rejected)


def claims(graph: Graph) -> set[tuple[str, str, str]]:
    return {(claim.source, claim.key, claim.agent_id) for claim in graph.session.read_graph_view().claims}
