"""What every search index answers, whichever it is: scope before rank, a total order, depth filled, names found."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import cast, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.leg_hits import LegLists, legs_of
from tests.neo4j_fixtures import SERVERS
from tests.places import Place, Servers, on_server
from tests.snapshots import Snapshot, index_order, load_snapshot
from waygraph.registry.access.visibility import routable
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.search_index import VECTOR_LEGS, Leg, QueryText, Scope, SearchIndex
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import RegistryNotFound
from waygraph.registry.model.identity import sealed_tool, tool_id
from waygraph.registry.model.nouns import AGENT_KINDS, Agent, Filters, Principal, Tool
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.server import ServerStore

LEGS: tuple[Leg, ...] = get_args(Leg)
DIMENSION = 8
GROUPS = ("red", "green", "blue")
TAGS = ("sea", "land", "air")
TOPICS = ("harbour", "weather", "invoice", "calendar", "translation", "library", "orchard", "railway")


MakeIndex = Callable[[Snapshot], SearchIndex]


def snapshot(agents: Sequence[Agent], tools: Sequence[Tool], *, seed: int = 1, dimension: int = DIMENSION) -> Snapshot:
    """Unit vectors from the seed, one for each agent and tool."""
    ordered = index_order({agent.id: agent for agent in agents}, {tool.agent_id for tool in tools})
    listed = sorted(tools, key=lambda tool: tool.id)
    vectors = np.random.default_rng(seed).normal(size=(len(ordered) + len(listed), dimension)).astype(np.float32)
    if dimension:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    state = IndexState(
        revision=seed,
        embedder="test" if dimension else "",
        embedder_spec="",
        texts="contextual",
        dimension=dimension,
        agents=len(ordered),
        tools=len(listed),
        schema_version=1,
    )
    return Snapshot(state=state, agents=ordered, tools=listed, vectors=vectors)


def tool(agent: str, name: str, description: str = "") -> Tool:
    made = Tool(id=tool_id(agent, name), agent_id=agent, name=name, description=description)
    return sealed_tool(made)


@pytest.fixture(scope="module", params=["local", *SERVERS])
def make_index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, neo4j_servers: Servers
) -> Iterator[MakeIndex]:
    if request.param != "local":
        target = neo4j_servers(request.param.removeprefix("neo4j "))
        yield from on_one_server(lambda: on_server(target, Settings()))
        return
    opened: list[EmbeddedStore] = []

    def make(content: Snapshot) -> SearchIndex:
        opened.append(EmbeddedStore(tmp_path_factory.mktemp("index") / "tools.grafeo", Settings()))
        load_snapshot(opened[-1], content)
        return opened[-1].index()

    yield make
    for store in opened:
        store.close()


def on_one_server(emptied: Callable[[], Place]) -> Iterator[MakeIndex]:
    """A server holds one registry: each index loads its content again when another one was asked in between."""
    holds: dict[object, ServerStore] = {}

    class OnServer:
        def __init__(self, content: Snapshot) -> None:
            self._content = content

        def __getattr__(self, name: str) -> object:
            store = holds.get(self) or self._loaded()
            return getattr(store.index(), name)

        def _loaded(self) -> ServerStore:
            for store in holds.values():
                store.close()
            holds.clear()
            place = emptied()
            store = holds[self] = ServerStore.at(str(place.location), place.settings)
            load_snapshot(store, self._content)
            return store

    yield lambda content: cast("SearchIndex", OnServer(content))
    for store in holds.values():
        store.close()


def random_fleet() -> Snapshot:
    """60 agents with random groups, tags, kinds and topics; a fifth hidden, some pinned, a sixth without tools."""
    chance = random.Random(42)  # noqa: S311
    agents, tools = [], []
    for number in range(60):
        topic = chance.choice(TOPICS)
        agent = Agent(
            id=f"{topic}-{number:02d}",
            name=f"{topic} {number:02d}",
            description=f"Everything about {topic} and {chance.choice(TOPICS)}",
            kind=chance.choice(AGENT_KINDS),
            tags=tuple(sorted(chance.sample(TAGS, chance.randrange(3)))),
            visible_to=tuple(sorted(chance.sample(GROUPS, chance.randrange(3)))),
            hidden=chance.random() < 0.2,
            pinned=chance.random() < 0.1,
        )
        agents.append(agent)
        count = 0 if number % 6 == 0 else chance.randrange(1, 6)
        tools += [
            tool(agent.id, f"find_{chance.choice(TOPICS)}_{n}", f"Finds {topic} number {n}") for n in range(count)
        ]
    return snapshot(agents, tools)


@pytest.fixture(scope="module")
def fleet() -> Snapshot:
    return random_fleet()


@pytest.fixture(scope="module")
def index(make_index: MakeIndex, fleet: Snapshot) -> SearchIndex:
    return make_index(fleet)


def vector(seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    drawn = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return drawn / np.linalg.norm(drawn)


scopes = st.builds(
    Scope,
    filters=st.builds(
        Filters,
        tags=st.lists(st.sampled_from([*TAGS, "none"]), max_size=2).map(tuple),
        kinds=st.lists(st.sampled_from(AGENT_KINDS), max_size=2).map(tuple),
        agent_ids=st.lists(st.sampled_from([a.id for a in random_fleet().agents]), max_size=5).map(tuple),
    ),
    principal=st.none() | st.builds(Principal, groups=st.lists(st.sampled_from(GROUPS), max_size=2).map(tuple)),
)
names = st.sampled_from([a.id for a in random_fleet().agents] + [t.name for t in random_fleet().tools])
queries = st.lists(st.sampled_from([*TOPICS, "finds", "number", "3"]), min_size=1, max_size=4).map(" ".join) | names


def pairs(hits: LegLists) -> list[tuple[str, str]]:
    return list(zip(hits.entity_ids, hits.owner_ids, strict=True))


@given(scope=scopes, text=queries, seed=st.integers(0, 50), depth=st.integers(1, 80))
def test_nothing_outside_the_scope_shows_in_any_leg(
    index: SearchIndex, scope: Scope, text: str, seed: int, depth: int
) -> None:
    """Hidden agents, others' agents, unfitting kinds, tags and ids: neither they nor their tools, by no leg."""
    agents = index.agents()
    for leg, hits in legs_of(index.search(LEGS, vector(seed), QueryText.of(text), depth, scope)).items():
        for entity, owner in pairs(hits):
            assert routable(agents[owner], scope.principal, scope.filters), (leg, entity)
            assert entity.partition("/")[0] == owner


@given(scope=scopes, text=queries, seed=st.integers(0, 50), depth=st.integers(1, 40))
def test_a_filter_never_costs_an_answer(index: SearchIndex, scope: Scope, text: str, seed: int, depth: int) -> None:
    """A leg under a scope is the leg of all that the principal sees with the others left out, up to the depth."""
    agents = index.agents()
    wide = legs_of(index.search(LEGS, vector(seed), QueryText.of(text), 10_000, Scope(principal=scope.principal)))
    for leg, hits in legs_of(index.search(LEGS, vector(seed), QueryText.of(text), depth, scope)).items():
        allowed = [
            entity for entity, owner in pairs(wide[leg]) if routable(agents[owner], scope.principal, scope.filters)
        ]
        expected = allowed if leg == "name" else allowed[:depth]
        assert list(hits.entity_ids) == expected, leg


@pytest.mark.attack
def test_words_of_hidden_texts_count_as_words_of_none(index: SearchIndex) -> None:
    """Scores, coverage and populations are those of a word that nobody wrote; who sees everything tells them apart."""
    red = Principal(groups=("red",))
    scope, told = Scope(principal=red), []
    ends = {agent.id[-2:] for agent in index.agents().values() if not routable(agent, red, Filters())}
    for word in (*ends, "wharfinger"):
        hits = index.search(LEGS, None, QueryText.of(f"harbour finds {word}"), 80, scope)
        told.append((legs_of(hits), hits.coverage, hits.populations))
    assert len(told) > 20
    assert all(each == told[-1] for each in told)
    everything, hidden = Scope(), min(ends)
    assert (
        index.search(LEGS, None, QueryText.of(f"harbour {hidden}"), 80, everything).coverage
        != index.search(LEGS, None, QueryText.of("harbour wharfinger"), 80, everything).coverage
    )


@given(text=queries, seed=st.integers(0, 50), depth=st.integers(1, 80))
def test_order_is_total_and_the_same_every_time(index: SearchIndex, text: str, seed: int, depth: int) -> None:
    """Scores never rise, no entity comes twice, and asking again gives the same list."""
    once = legs_of(index.search(LEGS, vector(seed), QueryText.of(text), depth, Scope()))
    again = legs_of(index.search(reversed(LEGS), vector(seed), QueryText.of(text), depth, Scope()))
    for leg, hits in once.items():
        assert again[leg] == hits
        assert list(hits.scores) == sorted(hits.scores, reverse=True)
        assert len(set(hits.entity_ids)) == len(hits.entity_ids)
        assert leg == "name" or len(hits.entity_ids) <= depth


@pytest.mark.parametrize("leg", ["agent_vector", "tool_vector", "capability_vector", "agent_text", "capability_text"])
def test_equal_scores_come_in_order_of_id(make_index: MakeIndex, leg: Leg) -> None:
    """Thirty entities that say the same rank by id, also where only some of them are asked for."""
    agents = [Agent(id=f"a{number:02d}", name="same", description="same words") for number in range(30)]
    content = snapshot(agents, [tool(agent.id, "same", "same words") for agent in agents])
    made = make_index(replace(content, vectors=np.ones_like(content.vectors) / np.float32(DIMENSION**0.5)))
    for depth in (1, 7, 30):
        found = legs_of(made.search([leg], vector(1), QueryText.of("same words"), depth, Scope()))[leg]
        assert list(found.owner_ids) == [agent.id for agent in agents][:depth]


def test_vector_scores_are_cosines(index: SearchIndex, fleet: Snapshot) -> None:
    """The score is the exact dot product with the entity's vector, and `similarity` the highest of them."""
    asked = vector(7)
    hits = index.search(["tool_vector"], asked, QueryText(), 10, Scope())
    rows = {made.id: row for row, made in enumerate(fleet.tools, start=len(fleet.agents))}
    found = legs_of(hits)["tool_vector"]
    for entity, score in zip(found.entity_ids, found.scores, strict=True):
        assert score == pytest.approx(float(fleet.vectors[rows[entity]] @ asked), abs=1e-6)
    assert hits.similarity == found.scores[0]


def test_what_has_no_direction_is_near_to_nothing(make_index: MakeIndex) -> None:
    """A vector of zeros finds nothing and is not found, in the whole or within a scope; words still find it."""
    agents = [Agent(id=f"a{number:03}", name="harbour", tags=("sea",) * (number < 6)) for number in range(500)]
    content = snapshot(agents, [])
    content.vectors[[1, 4]] = 0
    made = make_index(content)
    all_others = {agent.id for agent in agents} - {"a001", "a004"}
    for scope, depth, others in (
        (Scope(), 1000, all_others),
        (Scope(filters=Filters(tags=("sea",))), 10, {"a000", "a002", "a003", "a005"}),
    ):
        found = legs_of(made.search(LEGS, vector(1), QueryText.of("harbour"), depth, scope))
        assert set(found["agent_vector"].entity_ids) == set(found["capability_vector"].entity_ids) == others
        assert others < set(found["agent_text"].entity_ids)
        blank = made.search(LEGS, np.zeros_like(vector(1)), QueryText.of("harbour"), depth, scope)
        assert {leg: list(legs_of(blank)[leg].entity_ids) for leg in VECTOR_LEGS} == {leg: [] for leg in VECTOR_LEGS}
        assert (blank.similarity, legs_of(blank)["agent_text"]) == (0.0, found["agent_text"])


def test_a_capability_is_a_tool_or_an_agent_without_tools(index: SearchIndex, fleet: Snapshot) -> None:
    """Agents without tools stand among the tools, as findable as they are; agents with tools do not."""
    owners = {t.agent_id for t in fleet.tools}
    toolless = {agent.id for agent in fleet.agents} - owners
    assert toolless
    scope = Scope()
    shown = {a.id for a in fleet.agents if not a.hidden}
    found = legs_of(index.search(LEGS, vector(3), QueryText.of(" ".join(TOPICS)), 10_000, scope))
    by_vector = set(found["capability_vector"].entity_ids)
    assert by_vector == {t.id for t in fleet.tools if t.agent_id in shown} | (toolless & shown)
    assert set(found["agent_vector"].entity_ids) == shown
    assert set(found["tool_vector"].entity_ids) == by_vector - toolless
    assert {e for e in found["capability_text"].entity_ids if "/" not in e} == toolless & shown
    assert set(found["agent_text"].entity_ids) == shown


def test_without_a_vector_the_vector_legs_are_absent(index: SearchIndex) -> None:
    """No query vector: only text and names answer. Nor are there legs that were not asked for."""
    text = QueryText.of("harbour")
    assert set(legs_of(index.search(LEGS, None, text, 10, Scope()))) == {"agent_text", "capability_text", "name"}
    assert set(legs_of(index.search(["agent_text"], vector(1), text, 10, Scope()))) == {"agent_text"}


def test_an_index_without_vectors_still_finds_words(make_index: MakeIndex) -> None:
    """A registry without an embedder has no vector legs, whatever the query brings."""
    made = make_index(snapshot([Agent(id="a", name="harbour")], [tool("a", "moor")], dimension=0))
    found = legs_of(made.search(LEGS, vector(1), QueryText.of("harbour"), 10, Scope()))
    assert set(found) == {"agent_text", "capability_text", "name"}
    assert found["agent_text"].entity_ids == ["a"]


def test_an_empty_index_finds_nothing(make_index: MakeIndex) -> None:
    made = make_index(snapshot([], []))
    hits = made.search(LEGS, vector(1), QueryText.of("anything"), 10, Scope())
    assert all(not leg.entity_ids for leg in legs_of(hits).values())
    assert (hits.similarity, hits.coverage) == (0.0, 0.0)
    assert not made.agents()


HARD = [
    "",
    " ",
    "\x00",
    "the of and",
    '"unclosed AND (OR title:* ~5 ^2 [a TO b]',
    "🚢" * 500,
    "ميناء السفن",
    "港口的船舶停泊",
    "A" * 20_000,
    " ".join(f"word{n}" for n in range(3000)),
]


@pytest.mark.parametrize("text", HARD, ids=lambda text: repr(text[:12]))
def test_any_text_is_a_valid_query(index: SearchIndex, text: str) -> None:
    """Query syntax, control characters, other scripts, emoji, 3,000 words: never an error."""
    hits = index.search(LEGS, vector(1), QueryText.of(text), 10, Scope())
    assert len(legs_of(hits)["agent_vector"].entity_ids) == 10


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("停泊港口的船舶", "港口"),
        ("رسو السفن في الميناء", "السفن"),
        ("Übergrößen für Schiffe", "übergrößen"),
        ("renameFileInFolder", "rename file"),
        ("get_weather_forecast", "weather forecasts"),
    ],
)
def test_words_of_any_script_are_found(make_index: MakeIndex, text: str, query: str) -> None:
    """Chinese, Arabic, German, camelCase and snake_case descriptions answer to their words."""
    made = make_index(snapshot([Agent(id="a", name="a", description=text), Agent(id="b", name="b")], []))
    assert legs_of(made.search(["agent_text"], None, QueryText.of(query), 5, Scope()))["agent_text"].entity_ids == ["a"]


@pytest.fixture(scope="module")
def harbour(make_index: MakeIndex) -> SearchIndex:
    agents = [
        Agent(id="harbor-git", name="Harbor Git", description="Version control"),
        Agent(id="searcher", name="Searcher"),
    ]
    tools = [
        tool("harbor-git", "list_pull_requests"),
        tool("harbor-git", "createIssue"),
        tool("harbor-git", "search"),
        tool("searcher", "search"),
    ]
    return make_index(snapshot(agents, tools))


def named(index: SearchIndex, text: str) -> set[str]:
    return set(legs_of(index.search(["name"], None, QueryText.of(text), 10, Scope()))["name"].entity_ids)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Harbor Git", {"harbor-git"}),
        ("harborgit", {"harbor-git"}),
        ("  HARBOR_GIT?", {"harbor-git"}),
        ("list pull requests", {"harbor-git/list_pull_requests"}),
        ("please use 'Harbor Git' for it", {"harbor-git"}),
        ("please use “harbor-git” for it", {"harbor-git"}),
        ("call list_pull_requests on it", {"harbor-git/list_pull_requests"}),
        ("then createIssue, please", {"harbor-git/createIssue"}),
        ("then create_issue, please", {"harbor-git/createIssue"}),
        ("with harbor-git/search find it", {"harbor-git/search"}),
        ("harbor-git__search", {"harbor-git/search"}),
        ("search", {"harbor-git/search", "searcher/search"}),
        ("search for the pull requests of harbor", set()),
        ("a search, then another search", set()),
        ("list the pull requests", set()),
        ("", set()),
    ],
)
def test_who_is_named_outright_is_found(harbour: SearchIndex, text: str, found: set[str]) -> None:
    """The whole query, a quotation, a word written like an identifier: names. A common word in a sentence is none."""
    assert named(harbour, text) == found


def test_records_come_back_as_they_were(index: SearchIndex, fleet: Snapshot) -> None:
    """Agents by id, tools in the order asked for, the pinned ones, the sources: all as the snapshot held them."""
    assert list(index.agents().values()) == sorted(fleet.agents, key=lambda agent: agent.id)
    asked = [t.id for t in reversed(fleet.tools)]
    assert index.tools(asked) == list(reversed(fleet.tools))
    assert index.tools([]) == []
    assert list(index.pinned_agents()) == [agent for agent in index.agents().values() if agent.pinned]
    (source,) = index.sources()
    assert (source.name, source.namespace) == ("test", "test")
    assert sorted(source.claims) == sorted((agent.id, agent.id) for agent in fleet.agents)
    for agent in fleet.agents:
        assert list(index.tool_ids(agent.id)) == [t.id for t in fleet.tools if t.agent_id == agent.id]
    owned = index.tool_ids_of([agent.id for agent in fleet.agents])
    assert {owner: list(ids) for owner, ids in owned.items()} == {
        a.id: list(index.tool_ids(a.id)) for a in fleet.agents
    }
    with pytest.raises(KeyError):
        index.tools(["nobody/nothing"])


def test_vectors_come_back_as_they_were(index: SearchIndex, fleet: Snapshot) -> None:
    """Of agents and tools, in whatever order they are asked for; what has none, or is not there, is left out."""
    ids = [*(agent.id for agent in fleet.agents), *(item.id for item in fleet.tools)]
    found = index.vectors_of([*reversed(ids), "nobody", "nobody/nothing"])
    assert set(found) == set(ids)
    np.testing.assert_allclose(np.stack([found[each] for each in ids]), fleet.vectors, atol=1e-6)
    assert dict(index.vectors_of([])) == {}


def test_threads_share_an_index(index: SearchIndex) -> None:
    asked = [(text, Scope(Filters(tags=(tag,)))) for text in TOPICS for tag in TAGS]
    alone = [legs_of(index.search(LEGS, vector(1), QueryText.of(text), 10, scope)) for text, scope in asked]
    wrong: list[str] = []

    def ask() -> None:
        for (text, scope), expected in zip(asked * 3, alone * 3, strict=True):
            if legs_of(index.search(LEGS, vector(1), QueryText.of(text), 10, scope)) != expected:
                wrong.append(text)

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_a_publication_there_is_no_registry(tmp_path: Path) -> None:
    with pytest.raises(RegistryNotFound):
        LocalIndex.open(tmp_path)
    with pytest.raises(RegistryNotFound):
        LocalIndex.open(tmp_path / "nowhere")
