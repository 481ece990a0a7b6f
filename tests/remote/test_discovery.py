"""Finding over a registry that a service keeps: the same answers as over the registry itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway_catalog import GROUPS, by_hand, fill
from tests.service import served
from waygraph.registry import Filters, Registry
from waygraph.registry.access.policy import CallPolicy, Rule
from waygraph.registry.model.errors import AmbiguousTool, UnknownName
from waygraph.registry.routing.find_tools.find import FindAsked, agents_of_namespace, capabilities, find
from waygraph.registry.routing.find_tools.resolve import tool_meant

POLICY = CallPolicy(rules=(Rule(match="github/list_*", verdict="deny"), Rule(source="odd", verdict="ask")))


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Registry, Registry]]:
    """The registry, and the client of the service that keeps it."""
    with served(embedder="") as service, Registry.open(service.url, environ={}) as remote:
        fill(service.registry)
        service.registry.build_taxonomy(by_hand(GROUPS))
        yield service.registry, remote


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "open an issue in a repository"},
        {"query": "list the issues", "detail": "schema", "limit": 2},
        {"query": "create_issue", "detail": "names"},
        {"query": "tracker/create_issue", "agent_ids": frozenset({"tracker"})},
        {"query": "newcomer__translate_text"},
        {"query": "write verse"},
        {"query": ""},
        {"query": "", "agent_ids": frozenset({"tracker"})},
        {"query": "", "browses": True},
        {"query": "", "browses": True, "within": "code"},
        {"query": "create an issue", "within": "code"},
    ],
    ids=str,
)
def test_a_service_answers_as_the_registry_does(both: tuple[Registry, Registry], asked: dict[str, Any]) -> None:
    here, there = (find(registry, FindAsked(**asked), policy=POLICY) for registry in both)
    assert here == there
    assert here.get("tools") or here.get("not_callable") or here.get("categories") or here["overview"]


def test_a_service_shows_its_categories(both: tuple[Registry, Registry]) -> None:
    for path in ("", "code"):
        here, there = (registry.browse(path, filters=Filters(kinds=("mcp_server",))) for registry in both)
        assert here == there
    for registry in both:
        with pytest.raises(UnknownName, match="holds: code, desk") as caught:
            registry.browse("cod")
        assert (caught.value.noun, caught.value.nearest) == ("category", ("code",))
        listed = [each.agent.id for each in registry.agents_page(filters=Filters(within="desk")).items]
        assert listed == sorted(registry.browse("desk").members)
        assert "tracker" in listed


def test_what_a_service_withholds_is_named_as_nearest(both: tuple[Registry, Registry]) -> None:
    answer = find(both[1], FindAsked(query="entropy of quantum hamsters"), policy=CallPolicy(strict=True))
    assert answer["reason"]
    assert len(answer["nearest"]) == 3


def test_names_mean_the_same_tools(both: tuple[Registry, Registry]) -> None:
    for registry in both:
        assert tool_meant(registry, name="delete_repo").id == "github/delete_repo"
        assert tool_meant(registry, query="delete a repository for good").id == "github/delete_repo"
        with pytest.raises(AmbiguousTool):
            tool_meant(registry, name="create_issue")
        with pytest.raises(UnknownName, match="github__create_issue"):
            tool_meant(registry, name="github__creat_isue")
        assert agents_of_namespace(registry, "team") == {"github", "tracker"}


def test_a_service_tells_what_it_finds_by(both: tuple[Registry, Registry]) -> None:
    assert [capabilities(registry)["backends"] for registry in both] == [["keyword", "embedding"]] * 2
