"""Kinds and models of other packages: found by real entry points; a broken one is named and harms no other."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.contributed import install, on_path
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding import open_embedder
from waygraph.registry.model.errors import EmbedderRefused, InvalidSetting, SourceError
from waygraph.registry.model.nouns import Query
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.storage.local_registry import LocalRegistry

S = Settings()
FLEET = """
from waygraph.ingest.manifest.records import AgentRecord
from waygraph.ingest.sources.kinds import Kind

def fits(document):
    return isinstance(document, dict) and "fleet" in document

def read(document, where, intake):
    for number, ship in enumerate(document["fleet"]):
        yield AgentRecord(pointer=f"/fleet/{number}", key=ship["name"])

KIND = Kind("fleet", '{"fleet": [{"name": …}]}', fits, read)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    return made


def written(folder: Path, document: object) -> str:
    path = folder / "source.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("nowhere:KIND", " cannot be.*ModuleNotFoundError: No module named 'nowhere'"),
        ("acme_fleet:NOTHING", " cannot be.*AttributeError"),
        ("acme_fleet:fits", ": expected a waygraph.*, found function"),
        ("leaving:KIND", " cannot be.*SystemExit: 3"),
    ],
)
def test_a_broken_entry_point_is_told_with_its_package(folder: Path, tmp_path: Path, point: str, why: str) -> None:
    """In one line, where a kind is missed."""
    modules = {"acme_fleet": FLEET, "leaving": "raise SystemExit(3)\n"}
    install(folder, "acme-fleet", modules, {"fleet": "acme_fleet:KIND"})
    with on_path(folder):
        assert [entry.key for entry in read_path(written(tmp_path, {"fleet": [{"name": "A"}]}), S)[0].entries] == ["A"]
        with pytest.raises(SourceError, match=r"of the package acme-fleet 1\.0 failed: KeyError"):
            read_path(written(tmp_path, {"fleet": [{}]}), S)
    install(folder, "acme-wrong", {}, {"wrong": point})
    with on_path(folder):
        assert read_path(str(CATALOG), S)  # of a built-in kind
        with pytest.raises(InvalidSetting, match=f"wrong of the package acme-wrong 1.0{why}"):
            read_path(written(tmp_path, {"x": 1}), S)


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
