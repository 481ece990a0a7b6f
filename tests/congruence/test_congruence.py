"""A registry on the embedded engine and one on a server, through the same life: what they say, hold and answer.

The way qdrant-client tests its local mode against the remote one. How far ranked lists agree is logged:
`pytest tests/congruence --log-cli-level=INFO`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import methodcaller
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from tests.congruence.worlds import Edit, Question, World, reindexed
from tests.fake_openai import fake_openai
from tests.leg_hits import LegLists, legs_of
from tests.neo4j_fixtures import SERVERS
from tests.places import Place, Servers, new_place
from waygraph.cypher import load, names
from waygraph.registry.embedding.factory import default_spec, open_embedder
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.graph.engine import GraphSession, Rows
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, Hits, Leg, QueryText
from waygraph.registry.model import clock as clocks
from waygraph.registry.model.changes import ChangeSet, SyncReport
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import Query, Route
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import RECIPES
from waygraph.registry.storage.local_registry import LocalRegistry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

LOG = logging.getLogger(__name__)
EMBEDDED = "grafeo file"
NO_MODEL, DEFAULT_MODEL, PRETENDED = "none", "", "openai:any-model"
"""The pretended one makes vectors from a hash of the text: any two texts are as good as unrelated."""
LEGS: tuple[Leg, ...] = get_args(Leg)
BY_VECTORS = tuple(name for name, recipe in RECIPES.items() if not TEXT_LEGS & set(recipe.leg_names))

TIE = 1e-6
"""Cosines and fresh BM25 scores no further apart count as equal: both engines add in float32, each in its order."""
LEAST_OVERLAP = 0.9
LEAST_SAME_ROUTES = 0.98
MOST_COVERAGE_APART = 0.25
LEAST_VECTOR_OVERLAP = 0.99
"""On average, in worlds of many hundred tools: there HNSW may miss one among the last of a hundred."""
ASKED_BETWEEN, ASKED_AT_THE_END = 2, 40
"""Questions after each edit, and for each form of texts after the last one."""


@dataclass(frozen=True)
class Life:
    """A world, its registries' embedder, and how many edits it goes on for when each kind has been once."""

    seed: int
    embedder: str
    extra: int = 2
    agents: int = 8
    """Of each source, at first."""
    tools: int = 6
    """Of each agent, at most."""

    @property
    def name(self) -> str:
        size = "" if self.agents == Life.agents else f" of {self.agents}"
        return f"{self.embedder.partition(':')[0] or 'default'} {self.seed}{size}"

    @property
    def world(self) -> World:
        return World(self.seed, agents=self.agents, tools=self.tools)


LIVES = [Life(1, NO_MODEL), Life(3, PRETENDED), Life(4, DEFAULT_MODEL)]
LONG_LIVES = [
    Life(2, NO_MODEL),
    *(Life(seed, NO_MODEL, extra=40) for seed in range(10, 16)),
    *(Life(seed, PRETENDED, extra=40) for seed in range(20, 26)),
    Life(30, DEFAULT_MODEL, extra=40),
    Life(40, PRETENDED, agents=100, tools=12),
    Life(41, DEFAULT_MODEL, agents=40, tools=12),
]


def test_every_edit_is_answered_alike(lived: "Lived") -> None:
    """Reports, revisions, what was embedded, refusals and their words: the same after each edit."""
    for edit in lived.seen:
        assert edit.there.said == edit.here.said, edit.of


def test_every_revision_holds_the_same(lived: "Lived") -> None:
    """Each statement that reads gives the same rows in the same order, vectors to the last bit of a float32."""
    for edit in lived.seen:
        assert edit.there.rows.keys() == edit.here.rows.keys(), edit.of
        for statement, rows in edit.here.rows.items():
            assert edit.there.rows[statement] == rows, (edit.of, statement)


def test_every_revision_shows_the_same(lived: "Lived") -> None:
    """Agents with operators' words, tools, pinned ones, sources, status and notice."""
    for edit in lived.seen:
        assert edit.there.shown == edit.here.shown, edit.of


def test_vectors_find_the_same(lived: "Lived") -> None:
    """The vector legs are equal; where they differ in a place, the scores there are equal as far as floats go."""
    shares = []
    for answer in lived.answers:
        legs = VECTOR_LEGS & answer.here.legs.keys()
        assert VECTOR_LEGS & answer.there.legs.keys() == legs, answer.of
        pairs = {leg: (answer.here.legs[leg], answer.there.legs[leg]) for leg in legs}
        shares += [overlap(here.entity_ids, there.entity_ids) for here, there in pairs.values() if here.scores]
        apart = {leg: differences(*pair) for leg, pair in pairs.items()}
        assert lived.is_large or not any(apart.values()), (answer.of, apart)
        assert answer.there.hits.similarity == pytest.approx(answer.here.hits.similarity, abs=TIE), answer.of
    LOG.info("vector legs: %d, mean overlap %.4f", len(shares), fmean(shares or [1]))
    assert fmean(shares or [1]) >= LEAST_VECTOR_OVERLAP


def test_names_find_the_same(lived: "Lived") -> None:
    for answer in lived.answers:
        assert answer.there.legs["name"] == answer.here.legs["name"], answer.of


def test_words_find_the_same_while_nothing_is_rewritten(lived: "Lived") -> None:
    """Where texts were only ever added, the text legs are equal as vector legs are, and so is the coverage."""
    for answer in lived.fresh:
        apart = {leg: differences(answer.here.legs[leg], answer.there.legs[leg], relative=True) for leg in TEXT_LEGS}
        assert not any(apart.values()), (answer.of, apart)
        assert answer.there.hits.coverage == pytest.approx(answer.here.hits.coverage, abs=TIE), answer.of
    LOG.info("text legs where texts were only added: %d, all the same", len(TEXT_LEGS) * len(lived.fresh))


def test_words_find_nearly_the_same(lived: "Lived") -> None:
    """Of a text that was rewritten or removed Lucene counts the former words too, until it merges its files."""
    both = [(answer.here.legs[leg], answer.there.legs[leg]) for answer in lived.answers for leg in sorted(TEXT_LEGS)]
    shares = [overlap(here.entity_ids, there.entity_ids) for here, there in both if here.scores or there.scores]
    coverages = [abs(answer.here.hits.coverage - answer.there.hits.coverage) for answer in lived.answers]
    LOG.info("text legs: %d, mean overlap %.4f, the least %.2f", len(shares), fmean(shares), min(shares))
    LOG.info("coverage: %.3f apart at most", max(coverages))
    assert fmean(shares) >= LEAST_OVERLAP
    assert max(coverages) <= MOST_COVERAGE_APART


def test_routes_by_vectors_are_the_same(lived: "Lived") -> None:
    """The same agents with the same tools in the same order, the same pinned ones, reasons and errors."""
    for recipe in BY_VECTORS:
        routes = lived.routes(recipe)
        other = [both.of for both in routes if told(both.here) != told(both.there)]
        if routes:
            LOG.info("routes by %s: %d, %d other", recipe, len(routes), len(other))
            assert len(other) <= (1 - LEAST_SAME_ROUTES) * len(routes), other


def test_routes_by_words_are_the_same_while_nothing_is_rewritten(lived: "Lived") -> None:
    """As above; where texts were rewritten, the share of equal routes is logged."""
    for recipe in RECIPES.keys() - set(BY_VECTORS):
        fresh, routes = lived.routes(recipe, fresh=True), lived.routes(recipe)
        same = [told(both.here) == told(both.there) for both in routes]
        LOG.info("routes by %s: %d, the same %.4f", recipe, len(same), fmean(same or [1]))
        other = [both.of for both in fresh if told(both.here) != told(both.there)]
        assert len(other) <= (1 - LEAST_SAME_ROUTES) * len(fresh), other


def differences(here: LegLists, there: LegLists, *, relative: bool = False) -> list[str]:
    """Of two ranked lists, ties apart: in each place the scores are equal, and each entity has the same in both."""
    if len(here.scores) != len(there.scores):
        return [f"{len(here.scores)} hits here, {len(there.scores)} there"]
    known = dict(zip(here.entity_ids, here.scores, strict=True))
    # What is there alone came behind the last one here, if only by a hair.
    last = min(here.scores, default=0.0)
    return [
        f"place {at}: {mine} {score:.8f} here, {other} {found:.8f} there"
        for at, (mine, score, other, found) in enumerate(
            zip(here.entity_ids, here.scores, there.entity_ids, there.scores, strict=True)
        )
        if max(abs(found - score), abs(found - known.get(other, last))) > TIE * (score if relative else 1)
    ]


def overlap(here: Iterable[str], there: Iterable[str]) -> float:
    """The share that both have of what either has."""
    one, other = set(here), set(there)
    return len(one & other) / len(one | other)


def told(route: Route | str) -> object:
    """What a route says, but for scores: they may differ in the last place."""
    if isinstance(route, str):
        return route
    return (
        [(match.agent, match.tools) for match in route.matches],
        [match.agent for match in route.pinned],
        route.revision,
        route.notice(),
        route.reason,
    )


@dataclass(frozen=True)
class Seen:
    """What a registry said to an edit, held after it (rows by statement), and showed."""

    said: object
    rows: Mapping[str, Rows]
    shown: Mapping[str, object]


@dataclass(frozen=True)
class Answer:
    """What its index found, and the route of each recipe that it can take, or the error."""

    hits: Hits
    routes: Mapping[str, object]

    @property
    def legs(self) -> Mapping[Leg, LegLists]:
        return legs_of(self.hits)


@dataclass(frozen=True, kw_only=True)
class Twins[T]:
    """The same of both: of the embedded registry and of the one on a server. `of` names what led to it.

    `fresh`: until then texts were only added.
    """

    of: str
    here: T
    there: T
    fresh: bool = False


@dataclass
class Lived:
    """All that was seen on the way."""

    is_large: bool = False
    seen: list[Twins[Seen]] = field(default_factory=list)
    answers: list[Twins[Answer]] = field(default_factory=list)

    @property
    def fresh(self) -> list[Twins[Answer]]:
        return [answer for answer in self.answers if answer.fresh]

    def routes(self, recipe: str, *, fresh: bool = False) -> list[Twins[Any]]:
        asked = self.fresh if fresh else self.answers
        return [
            Twins(of=both.of, here=both.here.routes[recipe], there=both.there.routes[recipe])
            for both in asked
            if recipe in both.here.routes
        ]


class Clock:
    """Stands still while an edit befalls both registries, so that both are told the same time."""

    def __init__(self) -> None:
        self._ticks = 0

    def tick(self) -> None:
        self._ticks += 1

    def now(self) -> str:
        return f"2026-01-01T00:00:00.{self._ticks:06}+00:00"


@dataclass
class Pair:
    """Two registries that the same befalls. `vector`: of a text, None without a model."""

    here: LocalRegistry
    there: LocalRegistry
    vector: "Callable[[str], Vector | None]"
    clock: Clock
    lived: Lived = field(default_factory=Lived)
    fresh: bool = True

    def live(self, life: Life) -> Lived:
        """Every edit and question of a world."""
        world = life.world
        for edit in world.edits(life.extra):
            self._befall(edit)
            if self.here.store.exists:
                self._ask(world.questions(ASKED_BETWEEN), edit.told)
        for texts in world.forms:
            self._befall(reindexed(texts))
            self._ask(world.questions(ASKED_AT_THE_END), f"all, with {texts} texts")
        return self.lived

    def _befall(self, edit: Edit) -> None:
        self.clock.tick()
        here, there = seen(self.here, edit), seen(self.there, edit)
        self.fresh = self.fresh and only_adds(here.said)
        self.lived.seen.append(Twins(of=edit.told, here=here, there=there))

    def _ask(self, questions: Iterable[Question], after: str) -> None:
        for question in questions:
            vector = self.vector(question.text)
            self.lived.answers.append(
                Twins(
                    of=f"{question} after {after}",
                    here=answer(self.here, question, vector),
                    there=answer(self.there, question, vector),
                    fresh=self.fresh,
                )
            )


def only_adds(said: object) -> bool:
    """Whether no text was rewritten or removed by what was answered so."""
    if not isinstance(said, SyncReport):
        return False
    changes: ChangeSet = said.changes
    rewritten = (changes.updated_agents, changes.updated_tools, changes.removed_agents, changes.removed_tools)
    return said.dry_run or not (any(rewritten) or changes.operator)


def seen(registry: LocalRegistry, edit: Edit) -> Seen:
    said = outcome(registry, edit.do)
    if not registry.store.exists:
        return Seen(said, {}, {})
    rows = registry.read(all_rows)
    return Seen(said, rows, shown(registry, [row["id"] for row in rows["read/tools"]]))


def outcome(registry: LocalRegistry, do: Callable[[LocalRegistry], object]) -> object:
    """What came of it, time apart; an error in its words, place apart."""
    try:
        found = do(registry)
    except WaygraphError as error:
        return f"{type(error).__name__}: {error}".replace(registry.store.place, "PLACE")
    return replace(found, seconds=0.0) if isinstance(found, SyncReport) else found


def all_rows(session: GraphSession) -> dict[str, Rows]:
    """Statement that reads → its rows, with all agents and tools for the ids it asks for."""
    agents = [row["id"] for row in session.run(load("read/agents"))]
    tools = [row["id"] for row in session.run(load("read/tools"))]
    given: dict[str, dict[str, object]] = {
        "read/agent_vectors": {"ids": agents},
        "read/tool_vectors": {"ids": tools},
        "read/agents_of": {"agent_ids": agents},
        "read/tools_of": {"agent_ids": agents},
        "read/tools_named": {"names": sorted({tool.rpartition("/")[2] for tool in tools})},
        "read/agents_claimed": {"source": "test"},
        "read/agents_alike": {"ids": ["github", "mail"]},
        "read/agents_launched": {"transports": [""]},
        "read/claims_of": {"agent_ids": agents},
        "read/settings_of": {"agent_ids": agents},
        "read/changes_of": {"since": "", "before": "", "all": False, "agent_ids": agents[::2], "limit": 20},
    }
    reading = [name for name in names() if name.startswith(("read/", "check/")) and not name.endswith("_stamp")]
    found = {
        name: session.run(load(name, "Toolset"), **given.get(name, {}))
        for name in (*reading, "state/read", "schema/migrations")
    }
    for rows in found.values():
        # Java orders characters beyond the Basic Multilingual Plane before the last ones within it.
        if any(max(row.get("id") or " ") > "\uffff" for row in rows):
            rows.sort(key=lambda row: row["id"])
    found["check/orphans"].sort(key=lambda row: row["id"])
    return {name: [comparable(row) for row in rows] for name, rows in found.items()}


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is drawn or told anew in each registry; a vector as its float32 bytes."""
    kept = {name: value for name, value in row.items() if name not in {"commit", "applied_at"}}
    if kept.get("embedding") is not None:
        kept["embedding"] = np.asarray(kept["embedding"], dtype=np.float32).tobytes()
    return kept


def shown(registry: LocalRegistry, tools: list[str]) -> dict[str, object]:
    status, index, agents = registry.status(), registry.store.index(fresh=True), registry.agents()
    return {
        "agents": agents,
        "tools": index.tools(tools),
        "tools of the last": [(agent.id, registry.tools(agent.id)) for agent in agents[-1:]],
        "pinned": list(index.pinned_agents()),
        "sources": registry.sources(),
        "state": replace(status.state, commit=""),
        "number of sources": status.sources,
        "notice": registry.notice,
    }


def answer(registry: LocalRegistry, question: Question, vector: "Vector | None") -> Answer:
    """Of the recipes those that the registry's vectors allow."""
    index, filters, principal = registry.store.index(fresh=True), question.scope.filters, question.scope.principal
    text = replace_surrogates(question.text)  # as `check_query` hands it on
    hits = index.search(LEGS, vector, QueryText.of(text), question.depth, question.scope)
    query = Query(text=question.text, filters=filters, limit=min(question.depth, 10))
    routes = {
        name: outcome(registry, methodcaller("route", query, recipe=name, principal=principal))
        for name, recipe in RECIPES.items()
        if recipe.texts in (None, index.state.texts) and (vector is not None or not recipe.needs_vectors)
    }
    return Answer(hits, routes)


def given() -> Iterator[Any]:
    for chosen, marks in ((LIVES, ()), (LONG_LIVES, (pytest.mark.slow, pytest.mark.timeout(1800)))):
        for life in chosen:
            yield from (pytest.param((life, server), id=f"{life.name}, {server}", marks=marks) for server in SERVERS)


@pytest.fixture(scope="module", params=given())
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, neo4j_servers: Servers) -> Lived:
    """A life that is over. The server is wiped before it."""
    life, server = request.param
    folder = tmp_path_factory.mktemp("twins")
    # Each with a cache of its own: what one has embedded the other must embed too.
    own, other = (Settings(cache_dir=str(folder / name)) for name in ("here", "there"))
    with fake_openai() as fake, ExitStack() as stack:
        environ = fake.environ
        here = stack.enter_context(opened(new_place(EMBEDDED, folder, neo4j_servers, own), life, environ))
        there = stack.enter_context(opened(new_place(server, folder, neo4j_servers, other), life, environ))
        clock = Clock()
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(clocks, "now", clock.now)
        return Pair(here, there, model(life, environ), clock, Lived(is_large=life.agents > Life.agents)).live(life)


def opened(place: Place, life: Life, environ: Mapping[str, str]) -> LocalRegistry:
    return LocalRegistry.open(place.location, embedder=life.embedder or None, settings=place.settings, environ=environ)


def model(life: Life, environ: Mapping[str, str]) -> "Callable[[str], Vector | None]":
    embedder = open_embedder(life.embedder or default_spec(Settings()), Settings(), environ)
    return lambda text: embedder.embed([query_text(replace_surrogates(text))], "query")[0] if embedder else None
