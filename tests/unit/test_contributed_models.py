"""Embedders and rerankers of other packages: found by real entry points; what fails in one is told by its name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.contributed import install, on_path
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding import open_embedder
from waygraph.registry.model.errors import EmbedderRefused
from waygraph.registry.model.nouns import Query
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "examples" / "catalog"
CODE = (ROOT / "tests" / "contributed" / "acme_words.py").read_text(encoding="utf-8")
EMBEDDERS = {
    "acme": "acme_words:opened",
    "shouting": "acme_words:shouting",
    "gone": "acme_words:gone",
    "other": "acme_words:opened",
    "faulty": "acme_words:faulty",
}
TEXT = "book a table for dinner and pay the bill"
OF_PACKAGE = "of the package acme-words 1.0"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "acme-words", {"acme_words": CODE}, EMBEDDERS, group="waygraph.embedders")
    install(folder, "acme-order", {}, {"longest": "acme_words:ordering"}, group="waygraph.rerankers")
    with on_path(folder):
        yield folder
    sys.modules.pop("acme_words", None)


def filled(place: Path | str, spec: str, settings: Settings) -> LocalRegistry:
    registry = LocalRegistry.open(place, embedder=spec, settings=settings)
    for manifest in read_path(str(CATALOG), settings):
        sync(registry, manifest)
    return registry


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("long", ": expected rows of length 1"),
        ("endless", ": expected rows of length 1"),
        ("narrow", ": expected vectors of shape (2, 32), found (2, 31)"),
        ("few", ": expected vectors of shape (2, 32), found (1, 32)"),
        ("none", " failed: IndexError"),
    ],
)
def test_its_vectors_are_looked_at(site: Path, fault: str, why: str) -> None:
    embedder = open_embedder(f"faulty:{fault}", Settings(), {})
    assert embedder is not None
    with pytest.raises(EmbedderRefused) as caught:
        embedder.embed(["a table", "a chair"], "query")
    assert str(caught.value).startswith(f"the embedder faulty {OF_PACKAGE}{why}")


def test_agents_stand_in_its_rerankers_order(site: Path) -> None:
    with filled(":memory:", "none", Settings()) as registry:
        fused = registry.route(Query(text=TEXT, limit=20), recipe="lexical").matches
        route = registry.route(Query(text=TEXT, limit=20), recipe=recipe_named("lexical", rerank="longest:any"))
        assert {match.agent.id for match in route.matches} == {match.agent.id for match in fused}
        assert [match.agent.id for match in route.matches] != [match.agent.id for match in fused]
        assert route.notice("not_reranked") == ""
        brought = sys.modules["acme_words"].Longest
        assert brought.closed == 0
    assert brought.closed == 1
