"""A registry on the embedded engine and one on a server, through the same life: what they say, hold and answer.

The way qdrant-client tests its local mode against the remote one. How far the ranked lists agree is logged:
`pytest tests/congruence --log-cli-level=INFO`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

from tests.congruence.worlds import Edit, Question, World, reindexed
from tests.fake_openai import KEY, fake_openai
from tests.places import SERVERS, Place, Servers, new_place
from waygraph.cypher import load, names
from waygraph.registry import live_graph
from waygraph.registry.changes import SyncReport
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.errors import WaygraphError
from waygraph.registry.graph.engine import GraphSession, Rows
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, Hits, Leg, LegHits
from waygraph.registry.model import Query, Route
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import RECIPES
from waygraph.registry.settings import DEFAULT_EMBEDDER, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

LOG = logging.getLogger(__name__)
EMBEDDED = "grafeo in memory"
LEGS: tuple[Leg, ...] = get_args(Leg)
NO_MODEL, PRETENDED = "none", "openai:any-model"
"""The second has vectors of a hash of the text: any two are as good as unrelated."""

TIE = 1e-6
"""Cosines no further apart than this count as equal: both engines compute them in float32, each in its own order."""
LEAST_OVERLAP = 0.9
LEAST_SAME_ROUTES = 0.98
ASKED_BETWEEN, ASKED_AT_THE_END = 2, 40
"""Questions after each edit, and after the last one for each form of texts."""


@dataclass(frozen=True)
class Life:
    """A world, the embedder of its registries (empty: the default), and how many edits of any kind it goes on for."""

    seed: int
    embedder: str
    extra: int = 4
    agents: int = 12
    tools: int = 6

    @property
    def name(self) -> str:
        size = "" if self.agents == Life.agents else f" of {self.agents}"
        return f"{self.embedder.partition(':')[0] or 'default'} {self.seed}{size}"

    @property
    def world(self) -> World:
        return World(self.seed, agents=self.agents, tools=self.tools)


LIVES = [Life(1, NO_MODEL), Life(2, NO_MODEL), Life(3, NO_MODEL), Life(4, PRETENDED), Life(5, "")]
LONG_LIVES = [
    *(Life(seed, NO_MODEL, extra=40) for seed in range(10, 20)),
    *(Life(seed, PRETENDED, extra=40) for seed in range(20, 30)),
    *(Life(seed, "", extra=40) for seed in range(30, 32)),
    Life(40, PRETENDED, agents=100, tools=12),
    Life(41, "", agents=60, tools=12),
]

# -- what is compared ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a registry said to an edit, held after it, and showed."""

    said: object
    rows: Mapping[str, Rows]
    shown: Mapping[str, object]


@dataclass(frozen=True)
class Answer:
    """What it answered: hits of every leg, or the error; and the route of each recipe that it can take."""

    hits: Hits | str
    routes: Mapping[str, Route | str]


@dataclass(frozen=True)
class Twins[T]:
    """The same thing of both: of the embedded registry and of the one on a server. `of` names what led to it."""

    of: str
    here: T
    there: T


@dataclass
class Lived:
    """All that was seen on the way."""

    seen: list[Twins[Seen]]
    answers: list[Twins[Answer]]

    @property
    def legs(self) -> Iterator[Twins[Mapping[Leg, LegHits]]]:
        """Of each question that was answered."""
        for answer in self.answers:
            if isinstance(answer.here.hits, Hits) and isinstance(answer.there.hits, Hits):
                yield Twins(answer.of, answer.here.hits.legs, answer.there.hits.legs)

    def routes(self, recipe: str) -> list[Twins[Route | str]]:
        both = [(a.of, a.here.routes.get(recipe), a.there.routes.get(recipe)) for a in self.answers]
        return [Twins(of, here, there) for of, here, there in both if here is not None and there is not None]


def test_every_edit_is_answered_alike(lived: Lived) -> None:
    """Reports, revisions, what was embedded, refusals and their words: the same after each edit."""
    for edit in lived.seen:
        assert edit.there.said == edit.here.said, edit.of


def test_every_revision_holds_the_same(lived: Lived) -> None:
    """Each statement that reads gives the same rows in the same order, vectors to the last bit of a float32."""
    for edit in lived.seen:
        assert edit.there.rows.keys() == edit.here.rows.keys(), edit.of
        for statement, rows in edit.here.rows.items():
            assert edit.there.rows[statement] == rows, (edit.of, statement)


def test_every_revision_shows_the_same(lived: Lived) -> None:
    """Agents with operators' words, tools, pinned ones, sources, status and notice."""
    for edit in lived.seen:
        assert edit.there.shown == edit.here.shown, edit.of


def test_vectors_find_the_same(lived: Lived) -> None:
    """The vector legs are equal; where two lists differ in a place, the scores there are equal as far as floats go."""
    asked = 0
    for answer in lived.legs:
        for leg in VECTOR_LEGS & answer.here.keys():
            asked += 1
            assert list(differences(answer.here[leg], answer.there[leg])) == [], (answer.of, leg)
        assert VECTOR_LEGS & answer.here.keys() == VECTOR_LEGS & answer.there.keys()
    LOG.info("vector legs: %d, all equal", asked)


def test_names_find_the_same(lived: Lived) -> None:
    """Who is named outright, in the same order."""
    for answer in lived.legs:
        assert answer.there["name"] == answer.here["name"], answer.of


def test_words_find_nearly_the_same(lived: Lived) -> None:
    """Lists of BM25: each server counts removed texts for a while and rounds lengths in its own way."""
    shares = [
        overlap(answer.here[leg].entity_ids, answer.there[leg].entity_ids)
        for answer in lived.legs
        for leg in sorted(TEXT_LEGS)
        if answer.here[leg].entity_ids or answer.there[leg].entity_ids
    ]
    LOG.info("text legs: %d, overlap %.4f, the least %.2f", len(shares), fmean(shares), min(shares))
    assert fmean(shares) >= LEAST_OVERLAP


def test_hits_are_as_near(lived: Lived) -> None:
    """The highest cosine and the share of the query's words found, by which an answer is withheld or not."""
    for answer in lived.answers:
        if isinstance(answer.here.hits, Hits) and isinstance(answer.there.hits, Hits):
            assert answer.there.hits.similarity == pytest.approx(answer.here.hits.similarity, abs=TIE), answer.of
            assert answer.there.hits.coverage == pytest.approx(answer.here.hits.coverage, abs=0.05), answer.of


def test_routes_are_the_same(lived: Lived) -> None:
    """By vectors alone the same agents with the same tools in the same order, and the same pinned ones; so too errors.

    Of the recipes that read words the agreement is logged.
    """
    for name, recipe in RECIPES.items():
        if not (routes := lived.routes(name)):
            continue
        same = fmean(told(both.here) == told(both.there) for both in routes)
        LOG.info("routes by %s: %d, the same %.4f", name, len(routes), same)
        by_vectors = recipe.needs_vectors and not TEXT_LEGS & set(recipe.leg_names)
        assert not by_vectors or same >= LEAST_SAME_ROUTES, [b.of for b in routes if told(b.here) != told(b.there)]


def differences(here: LegHits, there: LegHits) -> Iterator[str]:
    """Of two lists of cosines, ties apart: at each place the scores are equal, and so are those of the ids there."""
    if len(here.scores) != len(there.scores):
        yield f"{len(here.scores)} hits here, {len(there.scores)} there"
        return
    known = dict(zip(here.entity_ids, here.scores, strict=True))
    last = min(here.scores, default=0.0)
    for at, (mine, other, score) in enumerate(zip(here.entity_ids, there.entity_ids, there.scores, strict=True)):
        # What is there alone fell behind the last one here: it may have come as near as that, no nearer.
        if abs(score - known.get(other, last)) > TIE or abs(score - here.scores[at]) > TIE:
            yield f"place {at}: {mine} {here.scores[at]:.8f} here, {other} {score:.8f} there"


def overlap(here: Iterable[str], there: Iterable[str]) -> float:
    """The share of both lists together that both have."""
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
        route.notice,
        route.reason,
    )


# -- living ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """Two registries that nothing has befallen yet, and their model: a text's vector, None without one."""

    here: Registry
    there: Registry
    vector: "Callable[[str], Vector | None]"
    clock: "Clock"

    def live(self, life: Life) -> Lived:
        """Every edit and question of a world, to both."""
        world, lived = life.world, Lived([], [])
        for edit in world.edits(life.extra):
            lived.seen.append(self._befall(edit))
            if self.here.exists:
                self._ask(world.questions(ASKED_BETWEEN), lived, edit.told)
        for texts in world.forms:
            edit = reindexed(texts)
            lived.seen.append(self._befall(edit))
            self._ask(world.questions(ASKED_AT_THE_END), lived, edit.told)
        return lived

    def _befall(self, edit: Edit) -> Twins[Seen]:
        self.clock.tick()
        return Twins(edit.told, seen(self.here, edit), seen(self.there, edit))

    def _ask(self, questions: list[Question], lived: Lived, after: str) -> None:
        for question in questions:
            vector = self.vector(question.text)
            here, there = (answer(registry, question, vector) for registry in (self.here, self.there))
            lived.answers.append(Twins(f"{question} after {after}", here, there))


def seen(registry: Registry, edit: Edit) -> Seen:
    said = outcome(registry, edit.do)
    if not registry.exists:
        return Seen(said, {}, {})
    return Seen(said, registry.read(all_rows), shown(registry))


def outcome(registry: Registry, do: Callable[[Registry], object]) -> object:
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
    given = {
        "read/agent_vectors": {"ids": agents},
        "read/tool_vectors": {"ids": tools},
        "read/tools_of": {"agent_ids": agents},
    }
    reading = [name for name in names() if name.startswith(("read/", "check/"))]
    found = {
        name: session.run(load(name), **given.get(name, {})) for name in [*reading, "state/read", "schema/migrations"]
    }
    found["check/orphans"].sort(key=lambda row: row["id"])
    return {name: [comparable(row) for row in rows] for name, rows in found.items()}


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is drawn or told anew in each registry; a vector as its float32 bytes."""
    kept = {name: value for name, value in row.items() if name not in {"commit", "applied_at"}}
    if kept.get("embedding") is not None:
        kept["embedding"] = np.asarray(kept["embedding"], dtype=np.float32).tobytes()
    return kept


def shown(registry: Registry) -> dict[str, object]:
    status, index = registry.status(), registry.store.index(fresh=True)
    return {
        "agents": registry.agents(),
        "tools": registry.tools(),
        "tools of each": [(agent.id, registry.tools(agent.id)) for agent in registry.agents()[:3]],
        "pinned": list(index.pinned()),
        "sources": registry.sources(),
        "state": replace(status.state, commit=""),
        "number of sources": status.sources,
        "notice": registry.notice,
    }


def answer(registry: Registry, question: Question, vector: "Vector | None") -> Answer:
    index = registry.store.index(fresh=True)
    hits = index.search(LEGS, vector, question.text, question.depth, question.scope)
    query = Query(text=question.text, filters=question.scope.filters, limit=min(question.depth, 10))
    principal = question.scope.principal
    routes = {
        name: outcome(registry, partial(Registry.route, query=query, recipe=name, principal=principal))
        for name, recipe in RECIPES.items()
        if recipe.texts in (None, index.state.texts) and (index.state.embedder or not recipe.needs_vectors)
    }
    return Answer(hits, {name: route for name, route in routes.items() if isinstance(route, (Route, str))})


class Clock:
    """Stands still while an edit befalls both registries, so that both are told the same time."""

    def __init__(self) -> None:
        self._ticks = 0

    def tick(self) -> None:
        self._ticks += 1

    def now(self) -> str:
        return f"2026-01-01T00:00:00.{self._ticks:06}+00:00"


# -- fixtures --------------------------------------------------------------------------------------


def given() -> Iterator[Any]:
    for chosen, marks in ((LIVES, ()), (LONG_LIVES, (pytest.mark.slow, pytest.mark.timeout(1800)))):
        for life in chosen:
            yield from (pytest.param((life, server), id=f"{life.name}, {server}", marks=marks) for server in SERVERS)


@pytest.fixture(scope="module", params=given())
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, neo4j_servers: Servers) -> Lived:
    """A life that is over. The server is wiped before it."""
    life, server = request.param
    folder = tmp_path_factory.mktemp("twins")
    with fake_openai() as fake, pytest.MonkeyPatch.context() as patch:
        environ = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": KEY}
        clock = Clock()
        patch.setattr(live_graph, "now", clock.now)
        with ExitStack() as opened:
            # Each with a cache of its own: what one has embedded the other must embed too.
            here, there = (
                opened.enter_context(opened_at(new_place(place, folder, neo4j_servers, own), life, environ))
                for place, own in (
                    (EMBEDDED, Settings(cache_dir=str(folder / "here"))),
                    (server, Settings(cache_dir=str(folder / "there"))),
                )
            )
            return Open(here, there, model(life, environ), clock).live(life)


def opened_at(place: Place, life: Life, environ: Mapping[str, str]) -> Registry:
    return Registry.open(place.location, embedder=life.embedder or None, settings=place.settings, environ=environ)


def model(life: Life, environ: Mapping[str, str]) -> "Callable[[str], Vector | None]":
    embedder = open_embedder(life.embedder or DEFAULT_EMBEDDER, Settings(), environ)
    return lambda text: embedder.embed([query_text(text)], "query")[0] if embedder else None
