"""What a gateway finds and means is the same in every place that a registry lives in."""

from collections.abc import Iterator

import pytest

from tests.gateway_catalog import BOARD, PUBLIC, SECRET, fill
from tests.shelf import Shelf
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.catalog.resolve import tool_meant
from waygraph.registry.catalog.searchable import agents_of_namespace
from waygraph.registry.model.errors import AmbiguousTool, UnknownName
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture(scope="module")
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    place = shelf.empty()
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as registry:
        fill(registry)
        yield registry


@pytest.mark.parametrize("query", ["github__create_issue", "GitHub/Create_Issue"])
def test_an_exact_name_is_first(registry: LocalRegistry, query: str) -> None:
    assert find(registry, FindAsked(query=query))["tools"][0]["name"] == "github__create_issue"
    assert tool_meant(registry, name=query).id == "github/create_issue"


def test_what_may_not_be_called_is_named(registry: LocalRegistry) -> None:
    for query in ("poet__write_verse", "newcomer__translate_text"):
        [refused] = find(registry, FindAsked(query=query, limit=1))["not_callable"]
        assert refused["name"] == query
        assert "waygraph approve" in refused["why"]


def test_the_overview_counts_what_is_seen(registry: LocalRegistry) -> None:
    seen = {who: find(registry, FindAsked(), principal=who)["overview"] for who in (None, BOARD, PUBLIC)}
    assert seen[None] == seen[BOARD]
    assert (seen[BOARD]["tools"], seen[PUBLIC]["tools"]) == (10, 8)
    assert "boardroom" not in seen[PUBLIC]["sources"]


def test_what_may_not_be_seen_is_unknown(registry: LocalRegistry) -> None:
    assert tool_meant(registry, name="sell_company", principal=BOARD).agent_id == SECRET
    for name in ("sell_company", f"{SECRET}__sell_company"):
        with pytest.raises(UnknownName):
            tool_meant(registry, name=name, principal=PUBLIC)
    with pytest.raises(AmbiguousTool) as caught:
        tool_meant(registry, name="create_issue", principal=PUBLIC)
    assert len(caught.value.candidates) == 2
    assert agents_of_namespace(registry, "board", BOARD) == {SECRET}
