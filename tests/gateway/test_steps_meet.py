"""Steps and exclusions beside pinned agents, histories, limits and models that are not there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_openai import FakeOpenAI, in_order
from waygraph import Settings
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.policy import CallPolicy
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.nouns import Of, Query, Turn
from waygraph.registry.routing.recipes import BY_OPERATOR, HYBRID, Rerank, recipe_named, with_rerank
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
RATES, TABLE = "today's exchange rates of a currency", "book a table for dinner"


def open_catalog(folder: Path, settings: Settings, environ: dict[str, str]) -> LocalRegistry:
    registry = LocalRegistry.open(folder / "a.grafeo", settings=settings, environ=environ)
    for manifest in read_path(str(CATALOG), Settings()):
        sync(registry, manifest)
    return registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LocalRegistry]:
    with open_catalog(tmp_path, Settings(embedder="none", data_dir=str(tmp_path)), {}) as opened:
        yield opened


def test_a_pinned_agent_stands_where_one_step_excludes_it(registry: LocalRegistry) -> None:
    registry.operator.set("bureau-fx", pinned=True)
    both = registry.route(Query(steps=(TABLE + " without bureau-fx", RATES)))
    assert [match.agent.id for match in both.pinned] == ["bureau-fx"]
    assert both.exclusions == ("bureau-fx",)
    assert registry.route(Query(steps=(TABLE + " without bureau-fx", RATES + " without bureau-fx"))).pinned == ()


def test_steps_of_which_none_is_found_give_a_reason(registry: LocalRegistry) -> None:
    assert find(registry, FindAsked(steps=("xqzv wrblt",)))["reason"]
    nothing = find(registry, FindAsked(query="rates without bureau-fx", agent_ids=frozenset({"bureau-fx"})))
    assert nothing["reason"]
    assert (nothing["tools"], [each["code"] for each in nothing["notices"]]) == ([], ["excluded"])


def test_each_step_has_a_tool_whatever_the_limit(registry: LocalRegistry) -> None:
    answer = find(registry, FindAsked(steps=(RATES, TABLE), limit=1))
    assert [len(names) for names in answer["steps"]] == [1, 1]
    with pytest.raises(InvalidQuery, match="offset"):
        find(registry, FindAsked(steps=(RATES,), offset=1))


def test_a_gateway_without_the_endpoint_of_its_steps_searches_all_the_same(tmp_path: Path) -> None:
    settings = Settings(embedder="none", data_dir=str(tmp_path), steps="openai:m")
    with open_catalog(tmp_path, settings, {}) as registry:
        route = registry.route(RATES, recipe=recipe_named("hybrid", steps_by=BY_OPERATOR))
        assert route.matches[0].agent.id == "bureau-fx"
        assert route.notice("not_split")


def test_a_model_splits_a_request_once_whatever_policy_refuses(fake: FakeOpenAI, tmp_path: Path) -> None:
    settings = Settings(embedder="none", data_dir=str(tmp_path), steps="openai:m")
    fake.answer = lambda _: json.dumps({"steps": [RATES, TABLE]})
    with open_catalog(tmp_path, settings, fake.environ) as registry:
        request = FindAsked(query="money and food", limit=1, recipe=recipe_named("hybrid", steps_by=BY_OPERATOR))
        find(registry, request, policy=CallPolicy(default="deny"))
    assert len(fake.requests) == 1


def test_a_step_is_reranked_without_the_request_that_it_is_of(fake: FakeOpenAI, tmp_path: Path) -> None:
    """Hosts keep the request among their turns; it is no talk before its own steps."""
    settings = Settings(embedder="none", data_dir=str(tmp_path))
    whole = "change money and eat out, not with Bureau FX"
    with open_catalog(tmp_path, settings, fake.environ) as registry:
        fake.answer = in_order(2, 1)
        query = Query(text=whole, steps=(RATES, TABLE), history=(Turn(role="user", text=whole),))
        registry.route(query, recipe=with_rerank(HYBRID, Rerank(spec="openai:m")))
    prompts = [json.loads(request["messages"][1]["content"]) for request in fake.requests]
    assert len(prompts) == 3
    assert [prompt.get("history") for prompt in prompts] == [None, None, None]


def test_a_walk_is_not_offered_what_the_words_exclude(fake: FakeOpenAI, tmp_path: Path) -> None:
    settings = Settings(embedder="none", data_dir=str(tmp_path))
    fake.answer = lambda request: json.dumps(
        {"numbers": [*range(1, 1 + len(json.loads(request["messages"][1]["content"])["choices"]))]}
    )
    with open_catalog(tmp_path, settings, fake.environ) as registry:
        registry.build_taxonomy(of=Of.AGENTS)
        recipe = recipe_named("taxonomy", walk="openai:m")
        walks = {text: registry.route(text, recipe=recipe).walked for text in (RATES, RATES + ", not with Bureau FX")}
    with_it, without_it = (set(walk.selected) for walk in walks.values() if walk)
    assert with_it - without_it == {"bureau-fx"}
