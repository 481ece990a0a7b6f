"""What the library refuses of its callers, before anything is done."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.test_flags import entry
from waygraph.ingest.sync import sync
from waygraph.registry.changes import Manifest
from waygraph.registry.discovery.overview import overview
from waygraph.registry.errors import InvalidQuery, InvalidSetting, WaygraphError
from waygraph.registry.model import Principal
from waygraph.registry.registry import Registry


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
        (lambda r: r.tools_page(limit=True), InvalidQuery, "limit"),
        (lambda r: r.find_tools("wind", agent_ids=[]), InvalidQuery, "agent_ids"),
        (lambda r: r.find_tools("wind", agent_ids="east"), InvalidQuery, "agent_ids"),
        (lambda r: r.set("east", tags=["\ud800"]), InvalidSetting, "tags holds half of a surrogate"),
        (lambda r: r.set("east", visible_to=["crew", "\udfff"]), InvalidSetting, "visible_to holds half"),
        (lambda r: r.reindex(texts="Plain"), InvalidSetting, "contextual, plain"),
        (lambda r: r.change(lambda session: session.held(), texts="nope"), InvalidSetting, "not 'nope'"),
    ],
)
def test_what_says_nothing_or_the_wrong_thing_is_refused(
    registry: Registry, ask: Callable[[Any], object], error: type[WaygraphError], told: str
) -> None:
    with pytest.raises(error, match=told):
        ask(registry)
    assert registry.status().state.revision == 1


def test_a_principal_s_groups_may_come_as_any_list_of_names(registry: Registry) -> None:
    listed: Any = ["crew"]
    assert Principal(groups=listed) == Principal(groups=("crew",))
    registry.set("west", visible_to=["crew"])
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
