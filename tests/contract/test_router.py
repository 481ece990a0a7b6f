"""Routing over the example catalogue, in every place: recipes, votes, filters, names, steps, abstention."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.fleet import manifest as fleet_manifest
from tests.leg_hits import legs_of
from tests.places import Place
from tests.shelf import EXAMPLES, Edition, Shelf, filled
from waygraph import RECIPES, Filters, Principal, Query
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.weights import PACKAGES
from waygraph.registry.index.analyser import MOST_WORDS
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, QueryText, Scope
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import (
    EmbedderMismatch,
    InvalidQuery,
    InvalidSetting,
    ModelNotFound,
    RecipeNeedsTexts,
    UnknownRecipe,
)
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Route, TextForm, Tool, Vote
from waygraph.registry.model.settings import DEFAULT_EMBEDDER
from waygraph.registry.routing.answering import NO_VECTORS
from waygraph.registry.routing.recipes import HYBRID, Calibration
from waygraph.registry.routing.router import NOTHING_FITS, NOTHING_KNOWN
from waygraph.registry.storage.local_registry import LocalRegistry

REQUESTS = [
    json.loads(line) for line in (EXAMPLES / "requests" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
]
CONTEXTUAL = [name for name, recipe in RECIPES.items() if recipe.texts in (None, "contextual")]
OF_REQUEST = {"call", "siblings"}
"""What votes of no leg come from."""
WORDLESS = Edition(embedder="none")
SHIP = "find out when the parcel arrives"


@pytest.fixture(scope="module")
def registry(shelf: Shelf) -> LocalRegistry:
    return shelf.catalogue(Edition())


@pytest.fixture(scope="module")
def plain(shelf: Shelf) -> LocalRegistry:
    return shelf.catalogue(Edition(texts="plain"))


@pytest.fixture(scope="module")
def wordless(shelf: Shelf) -> LocalRegistry:
    return shelf.catalogue(WORDLESS)


def ids(route: Route) -> list[str]:
    return [match.agent.id for match in route.matches]


def test_the_default_recipe_finds_most_of_the_right_agents(registry: LocalRegistry) -> None:
    """Of the catalogue's requests, most have every agent they need among the first five."""
    found = [
        all(set(need) & set(ids(registry.route(request["text"]))) for need in request["gold"]) for request in REQUESTS
    ]
    assert sum(found) / len(found) > 0.7


def worth(registry: LocalRegistry, recipe: str, text: str, vote: Vote) -> float:
    """Of a rank, 1 / (k + rank). Of a score: a cosine above the last one read, or BM25 in tens of standard deviations
    over all agents, 1 at most. Of what the request itself gives, the share of it."""
    if vote.leg in OF_REQUEST:
        return vote.score
    held, use = RECIPES[recipe], next(use for use in RECIPES[recipe].legs if use.leg == vote.leg)
    if held.merge != "by_score" or use.leg == "name":
        return 1 / (use.k + vote.rank)
    local = registry  # a Shelf gives a proxy
    queries = local._answering.router().queries
    assert queries is not None
    vector = queries.vector(text)
    hits = legs_of(local.store.index().search([use.leg], vector, QueryText.of(text), held.depth, Scope()))[use.leg]
    if use.leg in VECTOR_LEGS:
        return max(0.0, vote.score - (hits.scores[-1] if len(hits.scores) == held.depth else 0.0))
    best = {
        owner: max(s for o, s in zip(hits.owner_ids, hits.scores, strict=True) if o == owner)
        for owner in hits.owner_ids
    }
    scores = [*best.values(), *[0.0] * (registry.status().state.agents - len(best))]
    return float(min(vote.score / (10 * pstdev(scores)), vote.score / max(scores)))


@pytest.mark.parametrize("recipe", CONTEXTUAL)
def test_contributions_add_up_to_the_score(registry: LocalRegistry, recipe: str) -> None:
    """In every recipe an agent's score is the sum of what its votes contribute, and the order follows it."""
    for request in REQUESTS[:12]:
        route = registry.route(request["text"], recipe=recipe)
        for match in route.matches:
            assert match.score == pytest.approx(sum(vote.contribution for vote in match.votes))
            for vote in match.votes:
                assert vote.contribution == pytest.approx(vote.weight * worth(registry, recipe, request["text"], vote))
        assert [m.score for m in route.matches] == sorted((m.score for m in route.matches), reverse=True)


def test_agents_and_tools_come_in_one_order(registry: LocalRegistry) -> None:
    """Agents stand in the order of their best tools, and tell their tools in the order of find_tools."""
    for request in REQUESTS:
        tools = registry.find_tools(Query(text=request["text"], limit=50)).matches
        matches = registry.route(request["text"]).matches
        places = {match.tool.id: place for place, match in enumerate(tools)}
        first = [min(places[tool.id] for tool in match.tools if tool.id in places) for match in matches if match.tools]
        assert first == sorted(first), request["text"]
        for match in matches:
            own = [places[tool.id] for tool in match.tools if tool.id in places]
            assert own == sorted(own), request["text"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("book a table", "trencher-tables/reserve"),
        ("cancel my table", "trencher-tables/cancel-reservation"),
        ("I do not want the table any more, give it back", "trencher-tables/cancel-reservation"),
    ],
)
def test_a_destructive_tool_comes_first_where_it_is_asked_for(registry: LocalRegistry, text: str, first: str) -> None:
    assert registry.find_tools(text).matches[0].tool.id == first
    assert registry.route(text).matches[0].tools[0].id == first


def test_confidence_beside_tools_is_of_tools(registry: LocalRegistry) -> None:
    """An agent without tools that fits better is named, lends its confidence to no tool, and stops no withholding."""
    query = Query(text="why do the leaves of my basil turn yellow", strict=True)
    calibrations = tuple(replace(each, least=0.3) for each in HYBRID.calibrations)
    doubting = replace(HYBRID, calibrations=calibrations)
    route, tools = registry.route(query, recipe=doubting), registry.find_tools(query, recipe=doubting)
    assert [match.agent.id for match in route.matches][:1] == ["fernwise"]
    assert (tools.matches, tools.agents) == ((), ("fernwise",))
    assert (route.confidence or 0) > 0.5 > (tools.confidence or 1)
    assert registry.find_tools("book a table").agents == ()


@pytest.mark.parametrize("weights", [(1.5, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 3.0)])
def test_paper_is_algorithm_1(plain: LocalRegistry, weights: tuple[float, float]) -> None:
    """The recipe `paper` gives what the paper's Algorithm 1, written down here once more, gives."""
    import numpy as np

    local = plain
    agents, tools = plain.agents(), plain.tools()
    embedder = local._embedders.open(plain.status().state.embedder_spec).embedder
    assert embedder is not None
    entities = [("agent", a.id, a.id, f"{a.name}: {a.description}") for a in agents]
    entities += [("tool", t.id, t.agent_id, f"{t.name}: {t.description}") for t in tools]
    vectors = embedder.embed([text for *_, text in entities], "document")
    alpha = {"agent": weights[0], "tool": weights[1]}
    for request in REQUESTS[:20]:
        scores = vectors @ embedder.embed([request["text"]], "query")[0]
        top = [
            entity
            for kind in ("tool", "agent")
            for entity in sorted(
                ((float(s), *e[:3]) for s, e in zip(scores, entities, strict=True) if e[0] == kind), reverse=True
            )[:100]
        ]
        top.sort(key=lambda e: -e[0])
        weighted = sorted(enumerate(top, start=1), key=lambda pair: (-alpha[pair[1][1]] / (60 + pair[0]), pair[0]))
        expected = list(dict.fromkeys(owner for _, (_, _, _, owner) in weighted))[:5]
        route = plain.route(request["text"], recipe="paper", agent_weight=weights[0], tool_weight=weights[1])
        assert ids(route) == expected
        assert np.isclose(route.matches[0].votes[0].score, top[route.matches[0].votes[0].rank - 1][0], atol=1e-6)


def test_the_paper_weights_are_its_default(plain: LocalRegistry) -> None:
    """Without weights `paper` uses the paper's best ones, 1.5 for agents and 1.0 for tools."""
    for request in REQUESTS[:8]:
        assert ids(plain.route(request["text"], recipe="paper")) == ids(
            plain.route(request["text"], recipe="paper", agent_weight=1.5, tool_weight=1.0)
        )


def test_a_recipe_made_for_other_texts_is_refused(registry: LocalRegistry, plain: LocalRegistry) -> None:
    """`paper` needs plain texts and `hybrid` contextual ones; the error names the command that helps."""
    with pytest.raises(RecipeNeedsTexts, match="waygraph reindex --texts plain"):
        registry.route("book a table", recipe="paper")
    with pytest.raises(RecipeNeedsTexts, match="waygraph reindex --texts contextual"):
        plain.route("book a table", recipe="hybrid")
    for one in (plain, registry):
        for recipe in ("agents", "tools", "lexical"):
            assert ids(one.route("book a table for dinner", recipe=recipe))


def test_an_unknown_recipe_is_named_with_those_known(registry: LocalRegistry) -> None:
    """A misspelt recipe is answered with the known ones and the nearest."""
    with pytest.raises(UnknownRecipe, match="Did you mean 'hybrid'"):
        registry.route("x", recipe="hybird")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        Query(),
        Query(text="x", limit=0),
        Query(text="x", limit=-1),
        Query(steps=("a", " ")),
        Query(text=" ", steps=("b",)),
    ],
)
def test_a_query_that_cannot_be_asked_is_refused(registry: LocalRegistry, query: str | Query) -> None:
    """An empty text, an empty step or a limit below 1 is an error, not an empty answer."""
    with pytest.raises(InvalidQuery):
        registry.route(query)


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_must_be_a_number_from_zero(registry: LocalRegistry, weight: float) -> None:
    with pytest.raises(InvalidQuery, match="agent_weight"):
        registry.route("x", agent_weight=weight)


def test_the_same_query_gives_the_same_route(registry: LocalRegistry) -> None:
    """Routes of one query, recipe and revision are equal, however long each took."""
    for request in REQUESTS:
        assert registry.route(request["text"]) == registry.route(request["text"])


def test_the_limit_cuts_and_never_reorders(registry: LocalRegistry) -> None:
    """Asking for fewer agents gives the first of those that asking for more gives."""
    for request in REQUESTS[:10]:
        most = ids(registry.route(Query(text=request["text"], limit=10)))
        assert ids(registry.route(Query(text=request["text"], limit=3))) == most[:3]
        assert ids(registry.route(Query(text=request["text"], limit=9), limit=3)) == most[:3]
    with pytest.raises(InvalidQuery, match="limit must be a whole number from 1 up, not 0"):
        registry.route("anything", limit=0)


def test_a_query_that_is_a_name_finds_it(registry: LocalRegistry) -> None:
    """A query equal to an agent's id or name, in any case and with other separators, has that agent first."""
    for agent in registry.agents():
        for name in (agent.id, agent.name.upper(), agent.id.replace("-", "_"), agent.name.replace(" ", "")):
            assert agent.id in ids(registry.route(name)), name
            assert agent.id in ids(registry.route(name, recipe="lexical")), name


def test_a_query_that_is_a_tools_name_finds_its_agent(registry: LocalRegistry) -> None:
    """A query equal to a tool's name has one of the agents that own such a tool first, and the tool is found."""
    tools = registry.tools()
    for tool in tools:
        owners = {other.agent_id for other in tools if other.name == tool.name}
        assert ids(registry.route(tool.name))[0] in owners
        assert registry.find_tools(tool.name, limit=len(owners)).matches[0].tool.name == tool.name


def test_an_identifier_within_a_query_is_found(registry: LocalRegistry) -> None:
    """A tool written as an identifier, quoted, or as agent/tool is within the limit, whatever else is said."""
    tools = registry.tools()
    for tool in tools[::7]:
        for text in (
            f"please run {tool.agent_id}/{tool.name} about the weather in Oslo",
            f'what does "{tool.name}" do to my invoices',
        ):
            owners = {t.agent_id for t in tools if t.name == tool.name}
            assert owners & set(ids(registry.route(text))), text
    assert "harbor-git" in ids(registry.route("call open_pull_request, then water the plants at home tomorrow"))


def test_a_common_word_that_is_a_tools_name_does_not_count_as_one(registry: LocalRegistry) -> None:
    """The word `search` in a sentence gives no vote by name, though tools are called so."""
    assert any(tool.name == "search" for tool in registry.tools())
    route = registry.route("search for a quiet hotel in Lisbon")
    assert not [vote for match in route.matches for vote in match.votes if vote.leg == "name"]


def test_agents_without_tools_are_as_findable_as_others(registry: LocalRegistry, wordless: LocalRegistry) -> None:
    """Asked for in the words of its description, an agent without tools comes first, with vectors and without."""
    bare = [agent for agent in registry.agents() if not registry.tools(agent.id)]
    assert len(bare) >= 3
    for one in (registry, wordless):
        for agent in bare:
            assert ids(one.route(agent.description))[0] == agent.id


def test_filters_apply_before_ranking(registry: LocalRegistry) -> None:
    """A filter leaves the limit filled with what fits it, and nothing else comes."""
    for kind in ("openapi", "skill", "a2a_agent"):
        wanted = {agent.id for agent in registry.agents() if agent.kind == kind}
        text = next(agent.description for agent in registry.agents() if agent.kind == kind)
        found = ids(registry.route(Query(text=text, limit=50, filters=Filters(kinds=(kind,)))))
        assert set(found) == wanted
    tag = next(agent.tags[0] for agent in registry.agents() if agent.tags)
    tagged = {agent.id for agent in registry.agents() if tag in agent.tags}
    assert set(ids(registry.route(Query(text="anything", limit=50, filters=Filters(tags=(tag,)))))) <= tagged
    only = registry.find_tools("send a message", agent_ids=["parley-chat"], limit=50)
    assert {match.agent.id for match in only.matches} == {"parley-chat"}
    assert len(only.matches) == len(registry.tools("parley-chat"))


GROUPS = ("red", "green", "blue")


@settings(max_examples=12)
@given(
    walls=st.lists(st.sets(st.sampled_from(GROUPS)), min_size=6, max_size=6),
    hidden=st.sets(st.integers(0, 5)),
    pinned=st.sets(st.integers(0, 5)),
    groups=st.sets(st.sampled_from(GROUPS)),
)
def test_nothing_hidden_ever_shows(
    shelf: Shelf, walls: list[set[str]], hidden: set[int], pinned: set[int], groups: set[str]
) -> None:
    """Whatever the groups, an agent that the caller may not see is in no answer, list, count or suggestion."""
    with opened(shelf.empty(), "none") as registry:
        sync(registry, walled(walls))
        for number in hidden | pinned:
            registry.operator.set(f"agent-{number}", hidden=number in hidden, pinned=number in pinned)
        principal = Principal(groups=tuple(groups))
        seen = {f"agent-{n}" for n, wall in enumerate(walls) if n not in hidden and (not wall or wall & groups)}
        assert {agent.id for agent in registry.agents(principal=principal)} == seen
        assert {tool.agent_id for tool in registry.tools(principal=principal)} == seen
        for recipe in RECIPES:
            if recipe == "paper":
                continue
            for text in ("deliver the parcel", "agent-0", "`send_parcel`"):
                query = Query(text=text, limit=10)
                route = registry.route(query, recipe=recipe, principal=principal)
                assert {m.agent.id for m in (*route.matches, *route.pinned)} <= seen
                assert {vote.entity_id.partition("/")[0] for m in route.matches for vote in m.votes} <= seen
                tools = registry.find_tools(query, recipe=recipe, principal=principal)
                assert {m.agent.id for m in tools.matches} <= seen
        with pytest.raises(Exception) as caught:
            registry.agent("agent-9", principal=principal)
        assert set(getattr(caught.value, "nearest", ())) <= seen
        assert not [f"agent-{n}" for n in range(6) if f"agent-{n}" not in seen and f"agent-{n}" in str(caught.value)]


def opened(place: Place, embedder: str | None = None) -> LocalRegistry:
    return LocalRegistry.open(place.location, embedder=embedder, settings=place.settings, environ={})


def walled(walls: list[set[str]]) -> Manifest:
    entries = []
    for number, wall in enumerate(walls):
        agent = Agent(id=f"agent-{number}", name=f"Agent {number}", visible_to=tuple(sorted(wall)))
        agent = sealed_agent(replace(agent, description=f"delivers a parcel of size {number}"))
        tool = Tool(id=f"{agent.id}/send_parcel", agent_id=agent.id, name="send_parcel", description="deliver a parcel")
        entries.append(AgentEntry(key=agent.id, agent=agent, tools=(sealed_tool(tool),)))
    return Manifest(source="walls", namespace="walls", entries=tuple(entries))


def test_pinned_agents_stand_apart(shelf: Shelf) -> None:
    """A pinned agent comes in `pinned`, as it was found, not among the matches; beside it the answer is the same."""
    with filled(shelf.empty(), WORDLESS) as registry:
        free = registry.route(Query(text="send a direct message in the team chat", limit=6))
        best = ids(free)[0]
        registry.operator.set(best, pinned=True)
        registry.operator.set("trencher-tables", pinned=True)
        route = registry.route("send a direct message in the team chat")
        found = {match.agent.id: match for match in route.pinned}
        assert set(found) == {best, "trencher-tables"}
        assert found[best].agent.pinned
        assert (found[best].score, found[best].votes) == (free.matches[0].score, free.matches[0].votes)
        assert found[best].tools == free.matches[0].tools != ()
        assert (found["trencher-tables"].score, found["trencher-tables"].tools) == (0.0, ())
        assert ids(route) == ids(free)[1:]
        assert route.confidence == free.confidence
        registry.operator.set("trencher-tables", pinned=False)
        assert best in {m.agent.id for m in registry.find_tools("send a direct message in the team chat").matches}
        assert registry.route("zzz qqq").reason.startswith("beside the pinned agents nothing")
        assert registry.find_tools("zzz qqq").reason.startswith("nothing in this registry")
        registry.operator.set(best, hidden=True)
        assert registry.route("send a direct message in the team chat").pinned == ()


def test_all_steps_are_of_one_revision(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(shelf.empty()) as registry:
        sync(registry, walled([set()] * 6))
        kind, words = type(registry.store.index()), iter(["once"])
        searches = kind.search

        def search(*args: Any, **options: Any) -> Any:
            found = searches(*args, **options)
            for word in words:
                registry.operator.set(registry.agents()[0].id, tags=[word])
            return found

        monkeypatch.setattr(kind, "search", search)
        route = registry.route(Query(steps=("deliver a parcel", "pay an invoice", "open a door")))
        assert len({step.revision for step in route.steps}) == 1
        assert route.revision == route.steps[0].revision
        assert not list(words)


def test_steps_give_a_route_each_and_their_union_in_order_of_need(registry: LocalRegistry) -> None:
    """Each step has its route; the union starts with each step's best, in the steps' order, without repeats."""
    steps = ("find papers about sleep", "translate the abstract into German", "send it to the team channel")
    route = registry.route(Query(steps=steps, limit=4))
    assert [step.query.text for step in route.steps] == list(steps)
    for step, text in zip(route.steps, steps, strict=True):
        assert ids(step) == ids(registry.route(Query(text=text, limit=4)))
    firsts = list(dict.fromkeys(ids(step)[0] for step in route.steps))
    assert ids(route)[: len(firsts)] == firsts
    assert len(ids(route)) == len(set(ids(route))) == 4


def test_the_union_never_drops_a_steps_best_agent(registry: LocalRegistry) -> None:
    steps = ("what is the weather in Oslo", "turn on the lights in the kitchen", "show me unpaid invoices")
    route = registry.route(Query(steps=steps, limit=1))
    assert {ids(step)[0] for step in route.steps} == set(ids(route))


def test_nothing_fits_is_an_empty_list_with_a_reason(registry: LocalRegistry, wordless: LocalRegistry) -> None:
    """A strict request that no agent of the catalogue can serve gets no match, the reason, and what came nearest."""
    for opened, text in ((registry, "supernova remnants in dwarf galaxies"), (wordless, "qwertyuiop asdfgh zxcvb")):
        asked = Query(text=text, strict=True)
        route, tools = opened.route(asked), opened.find_tools(asked)
        assert (route.matches, tools.matches) == ((), ())
        assert route.reason == NOTHING_FITS
        open_minded = opened.route(text)
        assert list(route.nearest) == ids(open_minded)[:3]
        assert tools.nearest == tuple(match.tool.call_name for match in opened.find_tools(text).matches)[:3]
        assert open_minded.confidence == route.confidence
        assert (open_minded.nearest, bool(open_minded.matches)) == ((), opened is registry)
        steps = opened.route(Query(steps=(text, text), strict=True))
        assert (steps.matches, steps.nearest) == ((), route.nearest)


def test_words_count_more_where_the_model_does_not_know_the_script(registry: LocalRegistry) -> None:
    """Of agents and of tools; how sure the answer is stays what was calibrated, and English is as without."""
    for text, by in (("帮我查一下这个快递单号到哪里了", HYBRID.unread_words), ("帮我 track my parcel please", 1.0)):
        route, tools = registry.route(text), registry.find_tools(text)
        shares = {use.leg: use.share * (by if use.leg in TEXT_LEGS else 1.0) for use in HYBRID.legs}
        found = [match.votes for match in route.matches] + [match.votes for match in tools.matches]
        votes = [vote for each in found for vote in each if vote.leg not in OF_REQUEST]
        assert {vote.leg for vote in votes} & TEXT_LEGS
        assert {vote.leg: vote.weight for vote in votes}.items() <= shares.items()
        as_ever = replace(HYBRID, unread_words=1.0)
        assert route.confidence == registry.route(text, recipe=as_ever).confidence
        assert (route.matches == registry.route(text, recipe=as_ever).matches) is (by == 1.0)


def test_leaving_the_right_agents_out_lowers_the_fit(registry: LocalRegistry) -> None:
    """Without the agents that are right, withholding happens more often than with them, where it never does."""
    withheld = {"right": 0, "left out": 0}
    for request in REQUESTS:
        gold = {agent for need in request["gold"] for agent in need}
        others = tuple(agent.id for agent in registry.agents() if agent.id not in gold)
        withheld["right"] += not registry.route(Query(text=request["text"], strict=True)).matches
        asked = Query(text=request["text"], filters=Filters(agent_ids=others), strict=True)
        withheld["left out"] += not registry.route(asked).matches
    assert withheld["right"] == 0
    assert withheld["left out"] >= 1


def test_confidence_is_higher_where_a_right_agent_is(registry: LocalRegistry) -> None:
    """On the whole: with the right agents left out of the search the same requests are answered less surely."""
    there: list[float] = []
    left_out: list[float] = []
    for request in REQUESTS[:20]:
        gold = {agent for need in request["gold"] for agent in need}
        others = tuple(agent.id for agent in registry.agents() if agent.id not in gold)
        for sure, filters in ((there, Filters()), (left_out, Filters(agent_ids=others))):
            confidence = registry.route(Query(text=request["text"], filters=filters)).confidence
            assert confidence is not None
            sure.append(confidence)
    assert fmean(there) > fmean(left_out) + 0.05


def test_an_agent_may_be_named_like_a_literal(shelf: Shelf) -> None:
    """A name that looks like an id, a path or an address is still a name."""
    names = ("0123456789abcdef01", "/pets/list.json", "desk@acme.example")
    agents = [sealed_agent(Agent(id=f"a{at}", name=name, description="Pets.")) for at, name in enumerate(names)]
    manifest = Manifest(source="odd", entries=tuple(AgentEntry(key=agent.id, agent=agent) for agent in agents))
    with filled(shelf.empty(), WORDLESS) as registry:
        sync(registry, manifest)
        for agent in agents:
            assert ids(registry.route(f"ask '{agent.name}' for help"))[0] == agent.id


def test_other_texts_than_its_own_are_not_calibrated(shelf: Shelf) -> None:
    """`hybrid` may be asked of weighted texts; how sure it is there nobody has measured."""
    route = shelf.catalogue(Edition(texts="tdwa-2")).route(SHIP)
    assert route.matches
    assert route.confidence is None


def test_many_alike_that_fit_are_an_answer(shelf: Shelf) -> None:
    """Where none stands out among clones the request is answered all the same."""
    with filled(shelf.empty(), Edition()) as registry:
        for manifest in map(fleet_manifest, (1, 2)):
            sync(registry, manifest)
            assert registry.route("moors ship").matches
            assert registry.find_tools("moors ship").matches


def test_what_is_named_outright_is_certain(registry: LocalRegistry) -> None:
    named = registry.agents()[0].id
    assert registry.route(named).confidence == 1
    assert registry.find_tools(registry.tools()[0].id).confidence == 1


def test_confidence_is_by_the_recipes_own_weights(registry: LocalRegistry) -> None:
    """Other weights change the order and the scores, not how sure the registry is."""
    plain, weighed = registry.route(SHIP), registry.route(SHIP, agent_weight=5, tool_weight=0.5)
    assert weighed.matches[0].score != plain.matches[0].score
    assert weighed.confidence == plain.confidence
    assert plain.confidence == registry.find_tools(SHIP).confidence


def test_steps_are_as_sure_as_the_least_sure_of_them(registry: LocalRegistry) -> None:
    route = registry.route(Query(steps=(SHIP, "what is the weather in Oslo")))
    assert route.confidence == min(step.confidence or 0 for step in route.steps)


def test_a_recipe_without_a_calibration_is_not_sure(registry: LocalRegistry) -> None:
    route = registry.route("supernova remnants in dwarf galaxies", recipe=replace(HYBRID, calibrations=()))
    assert route.matches
    assert route.confidence is None
    foreign = Calibration(offset=0.0, slope=1.0, least=1.0, model="another-model")
    assert registry.route(SHIP, recipe=replace(HYBRID, calibrations=(foreign,))).confidence is None
    own = replace(HYBRID, calibrations=(foreign, *HYBRID.calibrations))
    assert registry.route(SHIP, recipe=own).confidence == registry.route(SHIP).confidence


def test_a_query_of_stop_words_or_signs_is_no_error(registry: LocalRegistry, wordless: LocalRegistry) -> None:
    """Operators, punctuation, emoji and stop words are valid queries in every recipe."""
    texts = ("AND OR NOT", '+-&&||!(){}[]^"~*?:\\/', "the of and", "🤖🤖", "' OR 1=1 --", "\u202eevil\u0000")
    for one in (registry, wordless):
        for text in texts:
            assert one.route(text).revision == 1


def test_a_pasted_file_in_a_query_does_not_drown_it(registry: LocalRegistry) -> None:
    blob = "iVBORw0KGgo" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0" * 500
    text = "make the background of this photo transparent"
    assert ids(registry.route(f"{text} data:image/png;base64,{blob}")) == ids(registry.route(text))


def test_only_so_many_words_are_searched_for_and_the_notice_says_so(wordless: LocalRegistry) -> None:
    """Each costs as much as the one before: of a long text each was looked up in every leg."""
    read = " ".join(["reserve a table", *(f"nobody{number}" for number in range(MOST_WORDS - 2))])
    unread = " ".join(f"parcel{number} convert currency" for number in range(600))
    short, long = wordless.find_tools(read), wordless.find_tools(f"{read} {unread}")
    assert [(each.tool.id, each.score) for each in long.matches] == [(e.tool.id, e.score) for e in short.matches]
    assert f"the first {MOST_WORDS} of its " in long.notice()
    assert "the first" not in short.notice()
    assert long.notice() == wordless.route(f"{read} {unread}").notice()


def test_without_vectors_words_are_searched_and_the_notice_says_so(wordless: LocalRegistry) -> None:
    """A registry without vectors routes lexically, and each answer says how to get the model."""
    route = wordless.route("reserve a restaurant table for dinner")
    assert route.recipe == "lexical"
    assert "trencher-tables" in ids(route)
    assert "words only" in route.notice()
    assert "words only" in wordless.find_tools("reserve a table").notice()


def test_with_steps_a_reason_is_told_where_nothing_is_found_at_all(wordless: LocalRegistry) -> None:
    known, unknown = "reserve a restaurant table for dinner", "zzz qqq"
    some = wordless.route(Query(steps=(known, unknown)))
    assert some.matches
    assert (some.reason, some.steps[0].reason, some.steps[1].reason) == ("", "", NOTHING_FITS)
    assert wordless.route(Query(steps=(unknown, "qqq zzz"))).reason == NOTHING_FITS


@pytest.mark.parametrize("recipe", ["hybrid", "paper", "tools"])
def test_without_vectors_any_recipe_gives_the_lexical_answer(wordless: LocalRegistry, recipe: str) -> None:
    """Its weights too: an answer that calls itself lexical is the same whatever was asked for."""
    text = "reserve a restaurant table for dinner"
    assert wordless.route(text, recipe=recipe).matches == wordless.route(text, recipe="lexical").matches
    weighed = wordless.route(text, recipe=recipe, agent_weight=3.0)
    assert weighed.matches == wordless.route(text, recipe="lexical", agent_weight=3.0).matches


def test_without_weights_a_new_registry_is_lexical_and_says_how_to_get_the_model(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no weights anywhere, ingest and routing work by words, and the notice names the command that helps."""
    hide_packages(monkeypatch)
    with opened(without_models(shelf.empty(), tmp_path)) as registry:
        assert "waygraph reindex" in sync(registry, walled([set()] * 6)).notice
        route = registry.route("deliver a parcel")
        assert route.matches
        assert route.recipe == "lexical"
        assert "waygraph-minilm" in route.notice()


def test_a_registry_made_without_weights_says_so_at_each_sync_till_it_is_embedded(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that came later change nothing by themselves; after a reindex there is nothing to say."""
    place = shelf.empty()
    with monkeypatch.context() as patched:
        hide_packages(patched)
        with opened(without_models(place, tmp_path)) as registry:
            sync(registry, walled([set()] * 6))
    with opened(place) as registry:
        assert (
            sync(registry, walled([set()] * 6)).notice
            == f"{NO_VECTORS} A model is here: `waygraph reindex` makes them."
        )
        assert (
            sync(registry, walled([set()] * 6), dry_run=True).notice
            == f"{NO_VECTORS} A model is here: `waygraph reindex` makes them."
        )
        registry.reindex()
        assert sync(registry, walled([set()] * 6)).notice == ""


def test_who_chose_no_embedder_is_not_told_of_it(shelf: Shelf) -> None:
    with opened(shelf.empty(), "none") as registry:
        assert sync(registry, walled([set()] * 6)).notice == ""


def hide_packages(patch: pytest.MonkeyPatch) -> None:
    """As if none that holds a model were installed."""
    for package in PACKAGES.values():
        patch.setitem(sys.modules, package, None)


def without_models(place: Place, folder: Path) -> Place:
    return replace(place, settings=replace(place.settings, cache_dir=str(folder / "cache")))


def test_weights_that_went_missing_leave_words_and_a_notice(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry with vectors, opened where its model is missing, is searched by words and says what to do."""
    place = shelf.empty()
    filled(place, Edition()).close()
    hide_packages(monkeypatch)
    with opened(without_models(place, tmp_path)) as registry:
        route = registry.route("reserve a restaurant table for dinner")
        assert "trencher-tables" in ids(route)
        assert "waygraph model pull" in route.notice()
        with pytest.raises(ModelNotFound):
            sync(registry, walled([set()]))


def test_another_embedder_than_the_registrys_is_refused(shelf: Shelf) -> None:
    """Opening a registry with another embedder is an error that names the command that helps."""
    place = shelf.empty()
    filled(place, Edition()).close()
    with pytest.raises(EmbedderMismatch, match="waygraph reindex"):
        opened(place, "openai:text-embedding-3-small")


def test_reindex_changes_texts_and_embedder(shelf: Shelf) -> None:
    """After a reindex the registry holds vectors of the other texts, or none, and routes accordingly."""
    with filled(shelf.empty(), Edition()) as registry:
        assert registry.reindex(texts="plain").texts_embedded >= 0
        assert ids(registry.route("book a table for dinner", recipe="paper"))
        registry.reindex(embedder="none")
        assert registry.status().state.dimension == 0
        assert "words only" in registry.route("book a table for dinner").notice()
        registry.reindex(texts="contextual", embedder=DEFAULT_EMBEDDER)
        assert registry.route("book a table for dinner").recipe == "hybrid"
        assert registry.status().state.revision == 4


def test_a_reindex_elsewhere_is_seen_by_whoever_has_the_registry_open(shelf: Shelf) -> None:
    """A recipe for other texts is refused before it, and answered after it without opening the registry anew."""
    place = shelf.empty()
    with filled(place, Edition()) as registry, opened(place) as other:
        with pytest.raises(RecipeNeedsTexts):
            other.route("book a table for dinner", recipe="paper")
        registry.reindex(texts="plain")
        assert ids(other.route("book a table for dinner", recipe="paper"))
        with pytest.raises(RecipeNeedsTexts):
            other.route("book a table for dinner", recipe="hybrid")


def test_texts_are_chosen_once(shelf: Shelf) -> None:
    """Asking an existing registry for other texts than its own is an error that names the command that helps."""
    with (
        filled(shelf.empty(), WORDLESS) as registry,
        pytest.raises(InvalidSetting, match="waygraph reindex --texts plain"),
    ):
        sync(registry, walled([set()]), texts="plain")


def test_elapsed_time_is_told_in_milliseconds(registry: LocalRegistry) -> None:
    assert 0 < registry.route("book a table").elapsed_ms < 60_000


def test_the_reason_is_of_what_is_there_now(shelf: Shelf) -> None:
    place = shelf.empty()
    with opened(place) as writer, opened(place) as asking:
        sync(writer, walled([]))
        assert asking.route("zzz qqq").reason == NOTHING_KNOWN
        sync(writer, walled([set()] * 2))
        assert asking.route("zzz qqq", recipe="lexical").reason == NOTHING_FITS
        writer.operator.forget(walled([]).source)
        assert asking.route("zzz qqq", recipe="lexical").reason == NOTHING_KNOWN


@pytest.mark.parametrize("texts", ["plain", "contextual"])
def test_a_registry_whose_agents_all_went_answers_by_every_recipe(shelf: Shelf, texts: TextForm) -> None:
    """Also once its index was built anew, with no row in it."""
    with opened(shelf.empty()) as emptied:
        sync(emptied, fleet_manifest(1), texts=texts)
        sync(emptied, Manifest(source="fleet", namespace="fleet", entries=()), allow_mass_removal=True)
        for _ in range(2):
            for recipe in (each for each in RECIPES.values() if each.takes(texts) and not each.walk):
                assert emptied.route("moor a ship", recipe=recipe).reason == NOTHING_KNOWN, recipe.name
            emptied.reindex(texts=texts)
