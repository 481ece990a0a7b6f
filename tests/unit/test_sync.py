"""What a sync plans and writes: who claims what, who speaks for whom, what is embedded. On a graph without an index."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waygraph.cypher import load
from waygraph.ingest.sync import counts, plan, refuse_mass_removal
from waygraph.registry.changes import AgentEntry, ChangeSet, Manifest, OperatorSettings, Policy, Rejected
from waygraph.registry.embedding.entities import TextForms
from waygraph.registry.embedding.opened import ChosenEmbedder
from waygraph.registry.embedding.protocol import Progress, Role
from waygraph.registry.errors import MassRemoval, UnknownName
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.reading import Held, overlaid
from waygraph.registry.graph.schema import migrate
from waygraph.registry.identity import agent_id, canonical_json, sealed_agent, sealed_tool, tool_id
from waygraph.registry.model import Agent, Tool
from waygraph.registry.storage.store import Writing, keep_nothing, prepare_nothing
from waygraph.registry.writing import WriteSession, Written, changed_setting

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix


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
        changes = plan(self.session.held(), manifest)
        return changes, self.session.commit(changes)

    def say(self, agent: str, **changes: object) -> None:
        self.session.put_setting(changed_setting(self.session.held(), agent, changes))

    def agents(self) -> dict[str, Agent]:
        """As they hold now, operators' words included."""
        held = self.session.held()
        return {name: overlaid(stored.agent, held.settings) for name, stored in held.agents.items()}

    def tools(self) -> dict[str, Tool]:
        held = self.session.held()
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
        Writing(engine, keep_nothing, prepare_nothing),
        lambda _: ChosenEmbedder(embedder=embedder, spec="counting"),
        texts="contextual",
        max_embedded_chars=4000,
        max_changes_kept=100,
        clock=lambda: f"2026-01-01T00:00:00.{next(ticks):06d}+00:00",
    )
    return Graph(engine, session, embedder)


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = new_graph()
    yield made
    made.engine.close()


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
    return {(claim.source, claim.key, claim.agent_id) for claim in graph.session.held().claims}


# -- one source ----------------------------------------------------------------------------------


def test_the_first_sync_creates_everything(graph: Graph) -> None:
    """Agents, tools, ownership, claims, vectors and revision 1, in one go."""
    changes, written = graph.sync(manifest("a", entry("x", tools=["one", "two"]), entry("y", tools=[])))
    assert changes.created_agents == ("x", "y")
    assert changes.created_tools == ("x/one", "x/two")
    assert written == Written(revision=1, texts_embedded=6)
    assert set(graph.agents()) == {"x", "y"}
    assert claims(graph) == {("a", "x", "x"), ("a", "y", "y")}


def test_an_unchanged_sync_changes_nothing(graph: Graph) -> None:
    """Again the same: an empty change set, the same revision, nothing embedded, the claims confirmed."""
    stated = manifest("a", entry("x"), entry("y"))
    graph.sync(stated)
    before = graph.session.held().claims
    embedded = graph.embedder.embedded
    changes, written = graph.sync(stated)
    assert changes.is_empty
    assert written == Written(revision=1)
    assert (changes.unchanged_agents, changes.unchanged_tools) == (2, 2)
    assert graph.embedder.embedded == embedded
    after = graph.session.held().claims
    assert [claim.since for claim in after] == [claim.since for claim in before]
    assert all(new.seen_at > old.seen_at for new, old in zip(after, before, strict=True))


def test_only_what_changed_is_embedded(graph: Graph) -> None:
    """A tool's new description embeds that tool's two texts, and nothing of its agent or its neighbours."""
    graph.sync(manifest("a", entry("x", tools=["one", "two"])))
    graph.embedder.texts.clear()
    changed = entry("x", tools=["one", "two"])
    tool = sealed_tool(replace(changed.tools[0], description="something else"))
    changes, written = graph.sync(manifest("a", replace(changed, tools=(tool, changed.tools[1]))))
    assert [update.id for update in changes.updated_tools] == ["x/one"]
    assert changes.updated_tools[0].fields == ("description",)
    assert changes.updated_agents == ()
    assert graph.embedder.texts == ["x | one: something else", "one: something else"]
    assert written.texts_embedded == 2


def test_what_is_not_listed_any_more_goes(graph: Graph) -> None:
    """A tool and an agent that the source lists no more are removed, with all that hung on them."""
    graph.sync(manifest("a", entry("x", tools=["one", "two"]), entry("y"), entry("z")))
    changes, _ = graph.sync(manifest("a", entry("x", tools=["two"]), entry("z")))
    assert changes.removed_agents == ("y",)
    assert set(changes.removed_tools) == {"x/one", "y/run"}
    assert set(graph.tools()) == {"x/two", "z/run"}
    assert graph.engine.run(load("check/orphans")) == []


def test_changed_behaviour_is_told(graph: Graph) -> None:
    """A known tool with another description or schema is listed; a new tool and a new tag are not."""
    graph.sync(manifest("a", entry("x", "old", tools=["one"]), entry("y", tools=["two"])))
    tagged = entry("y", tools=["two", "three"])
    with_tag = replace(tagged, tools=(sealed_tool(replace(tagged.tools[0], tags=("new",))), tagged.tools[1]))
    changes, _ = graph.sync(manifest("a", entry("x", "new", tools=["one"], schema='{"type":"object"}'), with_tag))
    assert [(u.id, u.fields) for u in changes.changed_behaviour] == [("x/one", ("description", "input_schema"))]
    assert {u.id for u in changes.updated_tools} == {"x/one", "y/two"}


def test_an_unreadable_record_keeps_what_was_held(graph: Graph) -> None:
    """An agent whose record is rejected this time stays as it is; it is not taken for removed."""
    graph.sync(manifest("a", entry("x"), entry("y")))
    rejected = Rejected(where="a#/1", reason="no name", key="y")
    changes, _ = graph.sync(manifest("a", entry("x"), rejected=(rejected,)))
    assert changes.released == ()
    assert changes.rejected == (rejected,)
    assert set(graph.agents()) == {"x", "y"}


def test_a_source_read_in_part_loses_nothing(graph: Graph) -> None:
    """Where a file could not be read nobody knows what it listed: what is missing stays, what is new is taken."""
    graph.sync(manifest("a", entry("x"), entry("y"), entry("z")))
    changes, _ = graph.sync(replace(manifest("a", entry("x", "new"), entry("v")), partial=True))
    assert changes.released == ()
    assert set(graph.agents()) == {"x", "y", "z", "v"}
    assert graph.agents()["x"].description == "new"
    changes, _ = graph.sync(manifest("a", entry("x", "new"), entry("v"), entry("z")))
    assert changes.removed_agents == ("y",)


def test_a_key_listed_twice_counts_once(graph: Graph) -> None:
    """The first record of a key is taken, the second rejected with the reason."""
    changes, _ = graph.sync(manifest("a", entry("x", "first"), entry("x", "second"), entry("y")))
    assert graph.agents()["x"].description == "first"
    assert [(r.key, r.reason) for r in changes.rejected] == [
        ("x", "this source lists agent 'x' twice; the first one is kept")
    ]


def test_keys_that_make_the_same_id_are_kept_apart(graph: Graph) -> None:
    """`a/b` and `a.b` of one source are two agents, whichever comes first and whatever they say."""
    graph.sync(manifest("s", entry("a.b", transport="T")))
    both = (entry("a/b", transport="T"), entry("a.b", transport="T"))
    graph.sync(manifest("s", *both))
    first = claims(graph)
    assert len({agent for *_, agent in first}) == 2
    assert ("s", "a.b", "a.b") in first
    changes, _ = graph.sync(manifest("s", *reversed(both)))
    assert changes.is_empty
    assert claims(graph) == first


def test_counts_name_every_number(graph: Graph) -> None:
    """The counts of a change set, by the names that reports show."""
    changes, _ = graph.sync(manifest("a", entry("x"), entry("y", tools=["one", "two"])))
    told = counts(changes)
    assert (told["agents created"], told["tools created"], told["agents removed"]) == (2, 3, 0)


# -- mass removal --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "refused"), [(4, False), (2, False), (1, True), (0, True)])
def test_a_sync_that_loses_more_than_half_is_refused(graph: Graph, kept: int, refused: bool) -> None:
    """Of four agents two may go at once; more are probably a broken source. The error names the numbers."""
    entries = [entry(f"x{n}") for n in range(4)]
    graph.sync(manifest("a", *entries))
    graph.sync(manifest("b", *(entry(f"other{n}") for n in range(10))))
    held = graph.session.held()
    changes = plan(held, manifest("a", *entries[:kept]))
    if not refused:
        refuse_mass_removal(held, changes)
        return
    with pytest.raises(MassRemoval, match="--allow-mass-removal") as caught:
        refuse_mass_removal(held, changes)
    assert (caught.value.source, caught.value.removed, caught.value.held) == ("a", 4 - kept, 4)


# -- several sources -----------------------------------------------------------------------------


def test_one_launch_is_one_agent(graph: Graph) -> None:
    """Two sources that list the same launch under one key share the agent; it goes with the last claim."""
    graph.sync(manifest("a", entry("x", "said by a", transport="npx x")))
    changes, _ = graph.sync(manifest("b", entry("x", "said by b", transport="npx x")))
    assert changes.written == ()
    assert claims(graph) == {("a", "x", "x"), ("b", "x", "x")}
    assert graph.agents()["x"].description == "said by a"
    graph.session.forget_source("a")
    assert set(graph.agents()) == {"x"}
    graph.session.forget_source("b")
    assert graph.agents() == {}
    assert graph.tools() == {}


def test_one_launch_is_one_agent_under_different_keys(graph: Graph) -> None:
    """Two configurations that call the same launch `github` and `gh` mean one agent, and the report says so."""
    graph.sync(manifest("a", entry("github", transport="npx github")))
    changes, _ = graph.sync(manifest("b", entry("gh", transport="npx github"), entry("y")))
    assert changes.renamed == (("gh", "github"),)
    assert set(graph.agents()) == {"github", "y"}
    assert graph.sync(manifest("b", entry("gh", transport="npx github"), entry("y")))[0].is_empty


def test_a_launch_that_many_share_names_no_agent(graph: Graph) -> None:
    """Where several agents stand behind one address, each keeps its own id."""
    graph.sync(manifest("a", entry("x", transport="url"), entry("y", transport="url")))
    graph.sync(manifest("b", entry("z", transport="url")))
    graph.sync(manifest("c", entry("v", transport="url"), entry("w", transport="url")))
    assert set(graph.agents()) == {"x", "y", "z", "v", "w"}


def test_a_key_that_changes_keeps_its_agent(graph: Graph) -> None:
    """A source that renames a key of the same launch keeps the agent; the old key is free for another."""
    graph.sync(manifest("a", entry("old", transport="T"), entry("y")))
    graph.sync(manifest("a", entry("new", transport="T"), entry("y")))
    assert claims(graph) == {("a", "new", "old"), ("a", "y", "y")}
    graph.sync(manifest("a", entry("new", transport="T"), entry("old", transport="U"), entry("y")))
    launched = {name: agent.transport for name, agent in graph.agents().items() if agent.transport}
    assert launched["old"] == canonical_json({"command": "T"})
    assert ("a", "new", "old") in claims(graph)
    assert len(launched) == 2


def test_different_agents_of_one_id_are_kept_apart(graph: Graph) -> None:
    """The later one becomes `<namespace>.<id>`, is reported, and stays so in any order of later syncs."""
    graph.sync(manifest("a", entry("x", "one thing", transport="T")))
    changes, _ = graph.sync(manifest("b", entry("x", "another thing", transport="U")))
    assert changes.renamed == (("x", "ns-b.x"),)
    assert set(graph.agents()) == {"x", "ns-b.x"}
    assert set(graph.tools()) == {"x/run", "ns-b.x/run"}
    graph.session.forget_source("a")
    changes, _ = graph.sync(manifest("b", entry("x", "another thing", transport="U")))
    assert changes.is_empty
    graph.sync(manifest("a", entry("x", "one thing", transport="T")))
    assert claims(graph) == {("a", "x", "x"), ("b", "x", "ns-b.x")}


def test_of_two_live_sources_that_asked_last_speaks(graph: Graph) -> None:
    """They tell of one server: what it says now is true, also where the source that came first is asked no more."""
    first, second = (entry("x", said, transport="T") for said in ("as it was", "as it is"))
    graph.sync(manifest("config", first, rank=1))
    changes, _ = graph.sync(manifest("other config", second, rank=1))
    assert [update.id for update in changes.updated_agents] == ["x"]
    assert graph.agents()["x"].description == "as it is"


@pytest.mark.parametrize("own", [None, "accept", "hold"])
def test_another_source_of_a_shared_server_does_not_let_in_what_one_holds_back(
    graph: Graph, own: Policy | None
) -> None:
    """The strictest policy of the live sources counts, also in the first sync of the one that comes later."""
    harmless, other = (entry("x", said, ["run"], transport="T") for said in ("as it was", "as it is"))
    graph.sync(replace(manifest("config", harmless, rank=1), policy="hold"))
    graph.sync(replace(manifest("other config", other, rank=1), policy=own))
    assert graph.tools()["x/run"].pending


def test_what_one_source_says_is_not_approved_with_what_another_said(graph: Graph) -> None:
    """Of two live sources of one server that one is named whose words are held."""
    first, second = (entry("x", said, transport="T") for said in ("as it was", "as it is"))
    graph.sync(replace(manifest("config", first, rank=1), policy="hold"))
    graph.sync(manifest("other config", second, rank=1))
    assert graph.session.approve("source:config").tools == ()
    assert graph.session.approve("source:other config").tools == ("x/run",)


def test_a_live_source_speaks_before_a_catalogue(graph: Graph) -> None:
    """What a running server says of itself replaces what a catalogue said, and the catalogue does not take it back."""
    listed = manifest("catalogue", entry("x", "as listed", transport="T"))
    live = manifest("live", entry("x", "as it is", tools=["real"], transport="T"), rank=1)
    graph.sync(listed)
    changes, _ = graph.sync(live)
    assert [update.id for update in changes.updated_agents] == ["x"]
    assert graph.agents()["x"].description == "as it is"
    assert set(graph.tools()) == {"x/real"}
    assert graph.sync(listed)[0].is_empty
    assert graph.agents()["x"].description == "as it is"


def test_a_shadowed_source_takes_over_when_the_first_is_forgotten(graph: Graph) -> None:
    """What it says counts with its next sync, once nobody before it claims the agent."""
    first, second = entry("x", "first", transport="T"), entry("x", "second", transport="T")
    graph.sync(manifest("a", first))
    graph.sync(manifest("b", second))
    graph.session.forget_source("a")
    assert graph.agents()["x"].description == "first"
    changes, _ = graph.sync(manifest("b", second))
    assert graph.agents()["x"].description == "second"
    assert not changes.is_empty
    assert graph.sync(manifest("b", second))[0].is_empty


def test_a_source_removes_only_what_it_claims(graph: Graph) -> None:
    """An empty manifest of one source leaves the others' agents alone."""
    graph.sync(manifest("a", entry("x"), entry("y", transport="T")))
    graph.sync(manifest("b", entry("z"), entry("y", transport="T")))
    changes, _ = graph.sync(manifest("b"))
    assert changes.removed_agents == ("z",)
    assert set(changes.released) == {"y", "z"}
    assert set(graph.agents()) == {"x", "y"}


def test_forgetting_an_unknown_source_is_an_error(graph: Graph) -> None:
    """The error suggests what was meant."""
    graph.sync(manifest("catalogue", entry("x")))
    with pytest.raises(UnknownName, match="Did you mean 'catalogue'"):
        graph.session.forget_source("catalog")


# -- operators -----------------------------------------------------------------------------------


def test_what_an_operator_said_survives_everything(graph: Graph) -> None:
    """Pin, tags, groups and hiding outlast syncs, the agent's disappearance and its return."""
    both = manifest("a", entry("x"), entry("y"))
    graph.sync(both)
    graph.say("x", tags=("mine",), visible_to=("team",), pinned=True, hidden=True)

    def assert_kept() -> None:
        agent = graph.agents()["x"]
        assert (agent.tags, agent.visible_to, agent.pinned, agent.hidden) == (("mine",), ("team",), True, True)

    assert_kept()
    assert graph.sync(both)[0].is_empty
    graph.sync(manifest("a", entry("x", "changed"), entry("y")))
    assert_kept()
    graph.sync(manifest("a", entry("y")))
    assert set(graph.agents()) == {"y"}
    graph.sync(both)
    assert_kept()


def test_a_removed_agent_stays_away_until_it_is_let_back(graph: Graph) -> None:
    """Its source may list it as often as it likes: reported as withheld. Let back, it returns with the next sync."""
    stated = manifest("a", entry("x"), entry("y"))
    graph.sync(stated)
    graph.say("x", removed=True)
    assert set(graph.agents()) == {"y"}
    assert set(graph.tools()) == {"y/run"}
    changes, _ = graph.sync(stated)
    assert changes.withheld == ("x",)
    assert changes.is_empty
    graph.say("x", removed=False)
    assert graph.sync(stated)[0].created_agents == ("x",)


def test_a_word_that_was_taken_back_moves_no_agent(graph: Graph) -> None:
    """Of two agents of one id the first goes: the second stays under its own, also where the plain id was restored."""
    graph.sync(manifest("a", entry("k/2"), entry("k.2")))
    graph.say("ns-a.k.2", removed=True)
    graph.say("k.2", removed=False)
    graph.sync(manifest("a", entry("k.2")))
    again, _ = graph.sync(manifest("a", entry("k.2")))
    assert again.is_empty
    assert again.withheld == ("ns-a.k.2",)


def test_a_removed_agent_does_not_come_back_as_another(graph: Graph) -> None:
    """A key whose agent an operator removed is withheld, also where some other agent has the same launch."""
    graph.sync(manifest("b", entry("gone", transport="T"), entry("y")))
    graph.say("gone", removed=True)
    graph.sync(manifest("a", entry("x", transport="T")))
    changes, _ = graph.sync(manifest("b", entry("gone", transport="T"), entry("y")))
    assert changes.withheld == ("gone",)
    assert claims(graph) == {("a", "x", "x"), ("b", "y", "y")}


def test_nothing_can_be_said_of_an_unknown_agent(graph: Graph) -> None:
    """A misspelt id is an error, not a setting that waits for ever."""
    graph.sync(manifest("a", entry("github")))
    with pytest.raises(UnknownName, match="Did you mean 'github'"):
        graph.say("githib", pinned=True)


def test_a_removed_agent_does_not_come_back_under_an_id_that_became_free(graph: Graph) -> None:
    """Its id was made since another entry of the source had the plain one; that entry goes, the removal stays."""
    graph.sync(manifest("a", entry("k.2", "another")))
    both = manifest("b", entry("k/2", "first"), entry("k.2", "second"))
    graph.sync(both)
    [unwanted] = [agent_id for source, key, agent_id in claims(graph) if (source, key) == ("b", "k.2")]
    graph.say(unwanted, removed=True)
    for _ in range(2):
        changes = plan(graph.session.held(), manifest("b", entry("k.2", "second")))
        assert changes.withheld == (unwanted,)
        graph.session.commit(changes)
    assert set(graph.agents()) == {"k.2"}


def test_an_imported_removal_removes(graph: Graph) -> None:
    """What an export says of operators holds for agents that are already here, too."""
    graph.sync(manifest("a", entry("x"), entry("y")))
    said = OperatorSettings(agent_id="x", removed=True)
    changes, _ = graph.sync(replace(manifest("b", entry("z")), operator=(said,)))
    assert changes.removed_agents == ("x",)
    assert set(graph.agents()) == {"y", "z"}
    assert graph.sync(replace(manifest("b", entry("z")), operator=(said,)))[0].is_empty


# -- any sequence --------------------------------------------------------------------------------

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
    held = graph.session.held()
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
    changes, written = graph.sync(stated)
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
            graph.session.forget_source(source)
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
    done = graph.session.approve(name)
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
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_sequence_of_syncs_fits_the_model(sequence: list[Step]) -> None:
    """Whatever four sources and an operator do in whatever order: agents are what is claimed and not removed, each
    says what its first speaker said last, the revision counts the changes, only new texts are embedded, and the
    same manifest again changes nothing."""
    assert_any_sequence_fits(sequence)


@pytest.mark.slow
@given(steps)
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_very_many_sequences_of_syncs_fit_the_model(sequence: list[Step]) -> None:
    """The same, for longer."""
    assert_any_sequence_fits(sequence)


# -- planning ------------------------------------------------------------------------------------


def test_a_plan_over_nothing_creates_everything() -> None:
    """Planning needs no registry: against nothing held, all is new."""
    changes = plan(Held(), manifest("a", entry("x", tools=["one", "two"])))
    assert changes.created_agents == ("x",)
    assert changes.created_tools == ("x/one", "x/two")
    assert changes.removed_agents == ()
