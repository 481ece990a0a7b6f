"""Any sequence of syncs and of operators' words fits a model that the manifests alone tell."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sync_graph import Graph, claims, entry, manifest, new_graph
from waygraph.cypher import load
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.plan import plan
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.model.changes import AgentEntry, Written
from waygraph.registry.model.identity import tool_id
from waygraph.registry.operators.approval import approve
from waygraph.registry.operators.sources import forget_source

SOURCES = {"live": 1, "awake": 1, "a": 0, "b": 0, "c": 0}
KEYS = ("k0", "k1", "k.2", "k/2", "k4")

entries = st.builds(
    entry,
    st.sampled_from(KEYS),
    st.sampled_from(["one", "two", ""]),
    st.lists(st.sampled_from(["t0", "t1", "t2"]), unique=True),
    transport=st.sampled_from(["", "", "T", "U"]),
)
manifests = st.builds(
    lambda source, listed, policy: replace(manifest(source, *listed, rank=SOURCES[source]), policy=policy),
    st.sampled_from(sorted(SOURCES)),
    st.lists(entries, max_size=4, unique_by=lambda made: made.key),
    st.sampled_from([None, None, None, "accept", "hold", "strict"]),
)
Step = Manifest | tuple[str, str | int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    manifests
    | manifests
    | manifests
    | st.tuples(st.just("forget"), st.sampled_from(sorted(SOURCES)))
    | st.tuples(st.sampled_from(["remove", "restore", "pin", "approve"]), st.integers(0, 5)),
    min_size=1,
    max_size=9,
)


class Model:
    """What must be true, told by the manifests alone: who claims, who speaks, what an operator wants."""

    def __init__(self) -> None:
        self.listed: dict[str, Manifest] = {}
        self.ids: dict[tuple[str, str], str] = {}
        self.since: dict[tuple[str, str], int] = {}
        self.spoken: dict[str, AgentEntry] = {}
        self.removed: set[str] = set()
        self.pinned: set[str] = set()
        self.clock = itertools.count()

    def claimants(self, agent: str) -> set[str]:
        return {source for (source, _), name in self.ids.items() if name == agent}

    def synced(self, stated: Manifest, now: dict[tuple[str, str], str]) -> None:
        """`now`: (source, key) → agent id, as the graph tells it after the sync."""
        mine = {key: name for (source, key), name in now.items() if source == stated.source}
        listed = {made.key: made for made in stated.entries}
        assert set(mine) <= set(listed)
        assert len(set(mine.values())) == len(mine), "two keys of a source share an agent"
        for key, name in mine.items():
            old = self.ids.get((stated.source, key))
            assert old in (None, name), "a claim moved to another agent"
        self.ids = {(s, k): n for (s, k), n in self.ids.items() if s != stated.source}
        self.ids |= {(stated.source, key): name for key, name in mine.items()}
        for key, name in mine.items():
            self._spoke(stated, listed[key], name)
        self._forget_unclaimed()

    def _spoke(self, stated: Manifest, made: AgentEntry, name: str) -> None:
        """Its word counts if no other claimant has a higher rank, or as a catalogue the same and an earlier claim."""
        self.since.setdefault((stated.source, name), next(self.clock))
        since = 0 if stated.rank else self.since[stated.source, name]
        others = self.claimants(name) - {stated.source}
        before = [(-SOURCES[other], self.since[other, name]) for other in others]
        if all((-stated.rank, since) <= other for other in before) or name not in self.spoken:
            self.spoken[name] = made

    def _forget_unclaimed(self) -> None:
        held = set(self.ids.values())
        self.spoken = {name: made for name, made in self.spoken.items() if name in held}
        self.since = {(s, n): at for (s, n), at in self.since.items() if n in held and s in self.claimants(n)}

    def without(self, agent: str | None = None, source: str | None = None) -> None:
        self.ids = {(s, k): n for (s, k), n in self.ids.items() if n != agent and s != source}
        self._forget_unclaimed()


def assert_fits(graph: Graph, model: Model) -> None:
    agents, tools = graph.agents(), graph.tools()
    assert set(agents) == set(model.ids.values())
    assert not set(agents) & model.removed
    assert claims(graph) == {(source, key, name) for (source, key), name in model.ids.items()}
    expected = {tool_id(name, tool.name) for name, made in model.spoken.items() for tool in made.tools}
    assert set(tools) == expected
    for name, agent in agents.items():
        assert agent.content_hash == model.spoken[name].agent.content_hash
        assert agent.pinned == (name in model.pinned)
    assert graph.engine.run(load("check/orphans")) == []


def texts_of(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Entity id → the texts its vector is made of."""
    held = graph.session.read_graph_view()
    owned = held.tools_of(held.agents)
    forms = TextForms(form="contextual", max_chars=4000)
    made = (
        AgentEntry(key=name, agent=stored.agent, tools=tuple(item.tool for item in owned.get(name, ())))
        for name, stored in held.agents.items()
    )
    return {entity: parts.texts for each in made for entity, parts in forms.of_entries([each]).items()}


def apply_manifest(graph: Graph, model: Model, stated: Manifest) -> None:
    revision, before = graph.revision, texts_of(graph)
    graph.embedder.texts.clear()
    whole = plan(graph.session.read_graph_view(), stated)
    changes, written = graph.sync(stated)
    assert changes == whole
    model.synced(stated, {(source, key): name for source, key, name in claims(graph)})
    after = texts_of(graph)
    changed = {text for entity, texts in after.items() if before.get(entity) != texts for text in texts}
    assert set(graph.embedder.texts) == changed
    assert written.texts_embedded == len(changed)
    assert written.revision == revision + (not changes.is_empty)
    assert len(stated.entries) - len(changes.withheld) == len([s for s, _ in model.ids if s == stated.source])
    assert set(changes.withheld) <= model.removed
    model.listed[stated.source] = stated
    again, rewritten = graph.sync(stated)
    assert again.is_empty
    assert rewritten == Written(revision=written.revision)


def apply(graph: Graph, model: Model, step: Step) -> None:
    if isinstance(step, Manifest):
        apply_manifest(graph, model, step)
        return
    action, which = step
    if action == "forget":
        source = str(which)
        if source in model.listed:
            forget_source(graph.session, source)
            del model.listed[source]
            model.without(source=source)
        return
    known = sorted({*graph.agents(), *model.removed})
    if not known:
        return
    name = known[int(which) % len(known)]
    if action == "approve":
        apply_approval(graph, name)
        return
    graph.say(name, **{"remove": {"removed": True}, "restore": {"removed": False}, "pin": {"pinned": True}}[action])
    if action == "remove":
        model.removed.add(name)
        model.without(agent=name)
    elif action == "restore":
        model.removed.discard(name)
    else:
        model.pinned.add(name)


def apply_approval(graph: Graph, name: str) -> None:
    """All that waits of the agent waits no more, which only the agent's own text tells."""
    if name not in graph.agents():
        return
    revision, before = graph.revision, texts_of(graph)
    waiting = {tool.id for tool in graph.tools().values() if tool.agent_id == name and tool.pending}
    graph.embedder.texts.clear()
    done = approve(graph.session, name)
    after = texts_of(graph)
    assert set(done.tools) == waiting
    assert done.revision == revision + bool(done.agents or done.tools)
    assert not any(tool.pending for tool in graph.tools().values() if tool.agent_id == name)
    assert set(graph.embedder.texts) == {
        text for entity, texts in after.items() if before[entity] != texts for text in texts
    }


def assert_any_sequence_fits(sequence: list[Step]) -> None:
    graph, model = new_graph(), Model()
    try:
        for step in sequence:
            apply(graph, model, step)
            assert_fits(graph, model)
    finally:
        graph.engine.close()


@given(steps)
def test_any_sequence_of_syncs_fits_the_model(sequence: list[Step]) -> None:
    """Whatever four sources and an operator do in whatever order: agents are what is claimed and not removed, each
    says what its first speaker said last, the revision counts the changes, only new texts are embedded, the part of
    the graph that a manifest names tells all that the whole tells, and the same manifest again changes nothing."""
    assert_any_sequence_fits(sequence)


@pytest.mark.slow
@given(steps)
@settings(max_examples=5_000)
def test_very_many_sequences_of_syncs_fit_the_model(sequence: list[Step]) -> None:
    assert_any_sequence_fits(sequence)
