"""Browsing, filtering and finding by a taxonomy: the same wherever a registry lives, and for whoever asks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.gateway_catalog import BOARD, GROUPS, PUBLIC, SECRET, agent, by_hand, fill, put, tool
from tests.shelf import Shelf
from tests.tree_walk import reach_tools
from waygraph import Filters, Principal, Query
from waygraph.registry.catalog.find import ROWS, FindAsked, find
from waygraph.registry.model.errors import InvalidQuery, UnknownName
from waygraph.registry.model.nouns import Of, Turn
from waygraph.registry.storage.local_registry import LocalRegistry

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


TREES: Mapping[str, tuple[Of, Mapping[str, Sequence[str]]]] = {
    "agents": (Of.AGENTS, {"code": ("github", "tracker"), "press": ("press", SECRET), ".": ("tracker",)}),
    "agents at the root": (Of.AGENTS, {".": ("github", "tracker", "press", SECRET)}),
    "many agents": (Of.AGENTS, {"paper": tuple(f"print-{at:02}" for at in range(30)), ".": ("press", SECRET)}),
    "tools": (Of.TOOLS, {**BY_TOOL, "print": [f"press/print_{at}" for at in range(30)], ".": ("github/merge",)}),
    "tools at the root": (Of.TOOLS, {".": (*BY_TOOL["issues"], *BY_TOOL["rest"])}),
}
"""What they sort, and by category what that holds; `.`: the root itself."""


@pytest.mark.parametrize(("of", "groups"), TREES.values(), ids=TREES)
@pytest.mark.parametrize("principal", [BOARD, PUBLIC], ids=["board", "public"])
def test_each_tool_is_reached_by_what_answers_show(
    registry: LocalRegistry, of: Of, groups: Mapping[str, Sequence[str]], principal: Principal
) -> None:
    """Whatever a category holds and wherever it stands, of what this caller sees; and by no answer anything else."""
    put(registry, "many", [agent("press", *(tool("press", f"print_{at}", "Print a page.") for at in range(30)))])
    put(registry, "more", [agent(f"print-{at:02}", tool(f"print-{at:02}", "go", "Print.")) for at in range(30)])
    registry.build_taxonomy(by_hand(groups), of=of, private=True, shown_to_all=True)
    tree = registry.operator.taxonomy(principal=principal)
    held = set(tree.below(tree.root))
    wanted = {each.call_name for each in registry.tools(principal=principal) if held & {each.id, each.agent_id}}
    asked: list[dict[str, Any]] = []

    def ask(**arguments: Any) -> dict[str, Any]:
        asked.append(answer := find(registry, FindAsked(browses=True, **arguments), principal=principal))
        return answer

    assert reach_tools(ask) == wanted
    assert SECRET not in json.dumps(asked) or principal is BOARD
    assert all(len(each.get("tools", ())) <= 8 and len(each.get("members", ())) <= ROWS for each in asked)


def test_what_stands_beside_categories_has_a_path(registry: LocalRegistry) -> None:
    """And so has an agent; in a query, too. No search goes out of it."""
    tree = by_hand({"code": ("github",), ".": ("tracker", SECRET)})
    registry.build_taxonomy(tree, private=True, shown_to_all=True)
    top = find(registry, FindAsked(browses=True), principal=BOARD)
    assert top["categories"] == {"code": "1: github", ".": f"2: tracker, {SECRET}. In none of the others"}
    assert top["holds"] == {"agents": 3}
    apart = find(registry, FindAsked(browses=True, within=".", limit=3), principal=BOARD)
    assert apart["members"] == {"./tracker": "Tickets of the desk", f"./{SECRET}": "What only the board may do"}
    assert find(registry, FindAsked(browses=True, within="."), principal=PUBLIC)["holds"] == {"agents": 1}
    for within, owners in ((".", {"tracker", SECRET}), ("./tracker", {"tracker"}), ("code/GitHub", {"github"})):
        found = find(registry, FindAsked(query="create an issue", within=within), principal=BOARD)
        assert {each["name"].partition("__")[0] for each in found["tools"]} == owners
    for path in ("code/tracker", f"./{SECRET}", "./github", "tracker/github"):
        with pytest.raises(UnknownName) as caught:
            registry.browse(path, principal=PUBLIC)
        assert SECRET not in str(caught.value).replace(repr(path), "")


def test_a_name_finds_nothing_outside_of_a_category(registry: LocalRegistry) -> None:
    """Neither a tool that is named outright, nor one that is near to the name, nor what followed a call before."""
    registry.build_taxonomy(by_hand(GROUPS))
    history = (Turn(role="call", tool="github/create_issue"), Turn(role="user", text="github__merge it"))
    for query in ("github__merge", "github__merg", "newcomer__translate_text", "merge a pull request"):
        answer = find(registry, FindAsked(query=query, within="desk", history=history))
        assert {name.partition("__")[0] for name in names_told(answer)} <= {"tracker"}
        assert "merge" in json.dumps(find(registry, FindAsked(query=query))) or query.startswith("newcomer")


def names_told(answer: Mapping[str, Any]) -> list[str]:
    return [*(each["name"] for each in answer["tools"]), *answer.get("nearest", ()), *answer.get("better_agents", ())]


def test_offset_is_refused_where_nothing_goes_on(registry: LocalRegistry) -> None:
    with pytest.raises(InvalidQuery, match="in one part"):
        find(registry, FindAsked(browses=True, offset=1))
    registry.build_taxonomy(by_hand(GROUPS))
    with pytest.raises(InvalidQuery, match="a larger limit"):
        find(registry, FindAsked(query="issue", offset=1))
    for wrong in (-1, True, "1", 1.5):
        with pytest.raises(InvalidQuery, match="whole number"):
            find(registry, FindAsked(browses=True, offset=wrong))  # type: ignore[arg-type]
    behind = find(registry, FindAsked(browses=True, within="code", offset=90))
    assert (behind["tools"], behind["reason"]) == ([], "offset is behind the last of 4")


@pytest.mark.parametrize("principal", [None, BOARD, PUBLIC])
def test_what_waits_is_in_no_category(registry: LocalRegistry, principal: Principal | None) -> None:
    registry.build_taxonomy(by_hand({"words": ("newcomer",), **GROUPS}))
    told = json.dumps(find(registry, FindAsked(browses=True), principal=principal))
    assert "newcomer" not in told
    assert "words" not in told
