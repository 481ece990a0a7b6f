"""What the library refuses of its callers, before anything is done."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tests.contract.test_flags import entry
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.catalog.find import overview
from waygraph.registry.model.errors import CypherRefused, InvalidQuery, InvalidSetting, UpstreamAnswered, WaygraphError
from waygraph.registry.model.nouns import Filters, Principal, Query
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.validation import check_query, reason_of
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import LEXICAL


class _Any:
    """`ANY[x]` is x, of no type."""

    def __getitem__(self, value: Any) -> Any:
        return value


ANY = _Any()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry.open(":memory:", embedder="none", environ={}) as opened:
        sync(opened, Manifest(source="test", entries=(entry("east", "sail", "wind"), entry("west", "row", "calm"))))
        yield opened


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda r: r.agents_page(limit=0), InvalidQuery, "limit"),
        (lambda r: r.agents_page(limit=-5), InvalidQuery, "limit"),
        (lambda r: r.tools(limit=True), InvalidQuery, "limit"),
        (lambda r: r.find_tools("wind", agent_ids=[]), InvalidQuery, "agent_ids"),
        (lambda r: r.find_tools("wind", agent_ids="east"), InvalidQuery, "agent_ids"),
        (lambda r: r.operator.set("east", tags=["\ud800"]), InvalidSetting, "tags holds half of a surrogate"),
        (lambda r: r.operator.set("east", visible_to=["crew", "\udfff"]), InvalidSetting, "visible_to holds half"),
        (lambda r: r.reindex(texts="Plain"), InvalidSetting, "contextual, plain"),
        (lambda r: r.operator.set("east", visible_to=iter([])), InvalidSetting, "at least one group"),
        (lambda r: r.operator.set("east", hidden="no"), InvalidSetting, "hidden is True or False, not 'no'"),
        (lambda r: r.operator.set("east", everyone="no"), InvalidSetting, "everyone is True or False"),
        (lambda r: r.operator.set("east", visible_to=["a"], everyone=True), InvalidSetting, "choose one"),
        (
            lambda r: r.agents_page(filters=Filters(kinds=ANY[("server",)])),
            InvalidQuery,
            "kinds of filters are mcp_server",
        ),
        (lambda r: r.route(None), InvalidQuery, "a text or a Query, not NoneType"),
        (lambda r: r.route("wind", recipe=5), InvalidQuery, "a name or a Recipe, not int"),
        (lambda r: r.find_tools("wind", recipe=None), InvalidQuery, "a name or a Recipe, not NoneType"),
        (lambda r: r.route("wind", principal="crew"), InvalidQuery, "a Principal, not str"),
        (lambda r: r.agents_page(filters=Filters(reachable=ANY["x"])), InvalidQuery, "reachable is True or False"),
        (lambda r: r.operator.cypher("RETURN 1", [1]), CypherRefused, "a mapping of names to values, not list"),
        (lambda r: r.operator.cypher("RETURN $a", {"a": ["\ud800"]}), CypherRefused, "'a' holds half of a surrogate"),
        (lambda r: r.route(Query(text="wind", filters=Filters(tags=ANY["wind"]))), InvalidQuery, "tags of filters"),
        (lambda r: r.agents_page(filters=Filters(agent_ids=ANY["east"])), InvalidQuery, "agent_ids of filters"),
        (lambda r: r.route("wind", recipe=replace(LEXICAL, depth=0)), InvalidSetting, "depth=0: expected"),
        (lambda r: sync(r, Manifest(source="test", policy=ANY["Hold"])), InvalidSetting, "accept, hold, strict"),
        (lambda _: Registry.open(ANY[None]), InvalidSetting, "not by NoneType"),
        (lambda _: Registry.open(ANY[b"r.grafeo"]), InvalidSetting, "not by bytes"),
        (lambda _: Settings(max_query_chars=ANY["x"]), InvalidSetting, "WAYGRAPH_MAX_QUERY_CHARS='x'"),
        (lambda _: load_settings({"WAYGRAPH_QUERY_CACHE_ENTRIES": "-5"}), InvalidSetting, "a whole number from 0"),
        (lambda r: r.change(lambda session: session.held(), texts="nope"), InvalidSetting, "not 'nope'"),
    ],
)
def test_what_says_nothing_or_the_wrong_thing_is_refused(
    registry: Registry, ask: Callable[[Any], object], error: type[WaygraphError], told: str
) -> None:
    with pytest.raises(error, match=told):
        ask(registry)
    assert registry.status().state.revision == 1


def test_names_may_come_one_after_the_other(registry: Registry) -> None:
    """What gives them but once must not be seen as empty: that would open the agent to everyone."""
    some: Any = (name for name in ("crew", "board"))
    registry.operator.set("east", visible_to=some, tags=ANY[iter(["fast"])])
    assert registry.agent("east").visible_to == ("board", "crew")
    assert registry.agent("east").tags == ("fast",)
    assert [agent.id for agent in registry.agents(principal=Principal())] == ["west"]
    steps: Any = (text for text in ("wind", "calm"))
    assert len(registry.route(Query(steps=steps)).steps) == 2


def _all_errors(kind: type[WaygraphError] = WaygraphError) -> Iterator[type[WaygraphError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _all_errors(below)


@pytest.mark.parametrize("kind", sorted(set(_all_errors()), key=str))
def test_every_error_crosses_to_another_process(kind: type[WaygraphError]) -> None:
    """Whole: its text and its facts. In a pool of processes one that does not ends the pool."""
    error = kind.__new__(kind, "what was seen")
    error.__dict__["fact"] = ("a", 1)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - it was just written
    assert (type(again), str(again), again.__dict__) == (kind, str(error), {"fact": ("a", 1)})


def test_a_principal_s_groups_may_come_as_any_list_of_names(registry: Registry) -> None:
    listed: Any = ["crew"]
    assert Principal(groups=listed) == Principal(groups=("crew",))
    registry.operator.set("west", visible_to=["crew"])
    assert [match.agent.id for match in registry.route("calm", principal=Principal(groups=listed)).matches] == ["west"]
    text: Any = "crew"
    with pytest.raises(TypeError, match="list of names"):
        Principal(groups=text)


def test_tools_that_wait_are_not_counted_among_those_that_may_be_found(registry: Registry) -> None:
    east = entry("east", "sail", "wind")
    more = replace(east, tools=(*east.tools, *entry("east", "drift", "wind").tools))
    sync(registry, Manifest(source="test", entries=(more,), policy="strict", partial=True))
    assert registry.tool("east/drift").pending
    assert overview(registry, None, None)["tools"] == 2


def test_a_fault_is_told_again_as_an_error_of_its_own() -> None:
    first = UpstreamAnswered(-32000, "no paper", {"tray": 2})
    again, named = first.again(), first.again("printer: no paper")
    assert (type(again), str(again), vars(again)) == (UpstreamAnswered, str(first), vars(first))
    assert again is not first
    assert (str(named), named.reason, named.code, named.data) == (
        "printer: no paper",
        "printer: no paper",
        -32000,
        {"tray": 2},
    )


def test_half_of_a_surrogate_pair_in_a_query_becomes_a_question_mark() -> None:
    """No UTF-8 can hold it, so it is replaced before any model or server is asked."""
    assert check_query("a \ud800 ship", None).text == "a ? ship"
    assert check_query(Query(steps=("a", "\udfff")), None).steps == ("a", "?")


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, Field(min_length=1, max_length=5)] = "a"
    limit: Annotated[int, Field(ge=1, le=1000)] = 5
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    kind: Literal["agent", "tool"] = "agent"
    tags: Annotated[list[str], Field(min_length=1, max_length=2)] = ["a"]
    within: dict[str, str] = {}
    pinned: bool = False

    @model_validator(mode="after")
    def _not_both(self) -> "Asked":
        if self.pinned and self.kind == "tool":
            raise ValueError("a tool is not pinned: name its agent")
        return self


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"text": 5}, "expected a text"),
        ({"text": ""}, "expected a text of 1 or more characters"),
        ({"text": "abcdef"}, "expected a text of 5 or fewer characters"),
        ({"limit": "5"}, "expected a whole number"),
        ({"limit": 0}, "expected a number from 1"),
        ({"limit": 1001}, "expected a number up to 1000"),
        ({"weight": 0.0}, "expected a number above 0"),
        ({"weight": float("nan")}, "expected a finite number"),
        ({"kind": "robot"}, "expected 'agent' or 'tool'"),
        ({"tags": "a"}, "expected a list"),
        ({"tags": []}, "expected 1 or more entries"),
        ({"tags": ["a", "b", "c"]}, "expected 2 or fewer entries"),
        ({"within": []}, "expected an object"),
        ({"pinned": "yes"}, "expected true or false"),
        ({"limt": 5}, "is not known"),
        ({"pinned": True, "kind": "tool"}, "a tool is not pinned: name its agent"),
        ([], "expected an object"),
    ],
)
def test_a_fault_says_what_is_expected(said: Any, reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(said)
    assert [reason_of(fault) for fault in caught.value.errors()] == [reason]


def test_without_its_facts_a_fault_is_told_as_pydantic_tells_it() -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({"limit": 0})
    assert [reason_of(fault) for fault in caught.value.errors(include_context=False)] == [
        "Input should be greater than or equal to 1"
    ]
