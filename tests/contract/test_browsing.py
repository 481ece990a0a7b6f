"""Browsing, filtering and finding by a taxonomy: the same wherever a registry lives, and for whoever asks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.gateway_catalog import BOARD, GROUPS, PUBLIC, SECRET, agent, by_hand, fill, put, tool
from tests.shelf import Shelf
from waygraph.registry import Filters, Principal, Query
from waygraph.registry.catalog.find_tools.find import FindAsked, find
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.tree import Of

BY_TOOL: Mapping[str, Sequence[str]] = {
    "issues": ("github/create_issue", "tracker/create_issue", f"{SECRET}/create_issue"),
    "rest": ("github/list_issues", "github/delete_repo"),
}


@pytest.fixture
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    place = shelf.empty()
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        fill(opened)
        yield opened


def ids(found: Any) -> set[str]:
    return {match.agent.id for match in found.matches}


def test_without_a_taxonomy_all_is_as_it_was(registry: LocalRegistry) -> None:
    with pytest.raises(UnknownName, match="waygraph taxonomy build") as caught:
        registry.browse()
    assert caught.value.noun == "taxonomy"
    assert find(registry, FindAsked(browses=True)) == find(registry, FindAsked())
    with pytest.raises(UnknownName):
        registry.route(Query(text="an issue", filters=Filters(within="code")))


def test_a_caller_sees_what_is_below_for_it(registry: LocalRegistry) -> None:
    """Of a tree that private agents had a part in nothing, unless the operator says so; then not their categories."""
    registry.build_taxonomy(by_hand(GROUPS), private=True)
    assert [child.path for child in registry.browse(principal=BOARD).children] == ["code", "desk", "boardroom"]
    with pytest.raises(UnknownName):
        registry.browse(principal=PUBLIC)
    registry.build_taxonomy(by_hand(GROUPS), private=True, shown_to_all=True)
    seen = registry.browse(principal=PUBLIC)
    assert [(child.path, child.count, child.examples) for child in seen.children] == [
        ("code", 1, ("github",)),
        ("desk", 1, ("tracker",)),
    ]
    assert (seen.count, registry.browse(principal=BOARD).count) == (2, 3)
    for asked in (
        lambda: registry.browse("boardroom", principal=PUBLIC),
        lambda: registry.route(Query(text="x", filters=Filters(within="boardroom")), principal=PUBLIC),
        lambda: registry.agents_page(filters=Filters(within="boardroom"), principal=PUBLIC),
        lambda: find(registry, FindAsked(within="boardroom", browses=True), principal=PUBLIC),
    ):
        with pytest.raises(UnknownName) as caught:
            asked()
        assert "board" not in str(caught.value).replace("'boardroom'", "")


def test_filters_narrow_what_is_counted(registry: LocalRegistry) -> None:
    registry.build_taxonomy(by_hand(GROUPS))
    counted = {child.path: child.count for child in registry.browse(filters=Filters(reachable=True)).children}
    assert counted == {"code": 1}
    assert [child.path for child in registry.browse(filters=Filters(agent_ids=("tracker",))).children] == ["desk"]
    assert registry.browse("desk", filters=Filters(within="desk")).members == ("tracker",)


def test_what_is_within_a_category_is_all_that_is_found(registry: LocalRegistry) -> None:
    registry.build_taxonomy(by_hand(GROUPS))
    query = Query(text="create an issue", filters=Filters(within="desk"))
    found = registry.route(query)
    assert ids(found) == {"tracker"}
    assert found.query == query
    assert ids(registry.find_tools(query)) == {"tracker"}
    assert [each.agent.id for each in registry.agents_page(filters=query.filters).items] == ["tracker"]
    other = Query(text="create an issue", filters=Filters(within="desk", agent_ids=("github",)))
    assert ids(registry.route(other)) == set()


def test_of_a_taxonomy_of_tools_only_those_are_found(registry: LocalRegistry) -> None:
    registry.build_taxonomy(by_hand(BY_TOOL), of=Of.TOOLS, private=True, shown_to_all=True)
    for who, expected in ((BOARD, 3), (PUBLIC, 2)):
        query = Query(text="create list delete issue repository", limit=20, filters=Filters(within="issues"))
        found = registry.find_tools(query, principal=who)
        assert {match.tool.name for match in found.matches} == {"create_issue"}
        assert len(found.matches) == registry.browse("issues", principal=who).count == expected
    answer = find(registry, FindAsked(within="rest", browses=True), principal=PUBLIC)
    assert [each["name"] for each in answer["tools"]] == ["github__delete_repo", "github__list_issues"]


def test_a_model_browses_down_to_tools(registry: LocalRegistry) -> None:
    """No tool without a category, at a leaf at most `limit`; a query within it finds the others."""
    put(registry, "many", [agent("press", *(tool("press", f"print_{at}", "Print a page.") for at in range(30)))])
    registry.build_taxonomy(by_hand({**GROUPS, "paper": ("press",)}))
    top = find(registry, FindAsked(browses=True), principal=PUBLIC)
    assert "tools" not in top
    assert top["categories"] == {"code": "1: github", "desk": "1: tracker", "paper": "1: press"}
    leaf = find(registry, FindAsked(within="paper", browses=True, limit=3), principal=PUBLIC)
    assert (leaf["within"], leaf["holds"], len(leaf["tools"])) == ("paper", {"agents": 1}, 3)
    assert "also" not in leaf
    found = find(registry, FindAsked(query="print page", within="paper", limit=20), principal=PUBLIC)
    assert len(found["tools"]) == 20
    assert {each["name"].partition("__")[0] for each in found["tools"]} == {"press"}
    door = find(registry, FindAsked(browses=True, agent_ids=frozenset({"press"})), principal=PUBLIC)
    assert door["categories"] == {"paper": "1: press"}
    assert "overview" in find(registry, FindAsked(), principal=PUBLIC)


@pytest.mark.parametrize("principal", [None, BOARD, PUBLIC])
def test_what_waits_is_in_no_category(registry: LocalRegistry, principal: Principal | None) -> None:
    registry.build_taxonomy(by_hand({"words": ("newcomer",), **GROUPS}))
    told = json.dumps(find(registry, FindAsked(browses=True), principal=principal))
    assert "newcomer" not in told
    assert "words" not in told
