"""Edges between near tools: those that a slow computation finds, kept true by every write, on every engine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.places import PLACES, Place, Servers, new_place
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidSetting, RegistryNotFound
from waygraph.registry.model.identity import sealed_tool
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.synthesis import candidate_graph
from waygraph_lab.synthesis.candidate_graph import Nearness, link_tools, near_pairs

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
EDGES = "MATCH (t)-[edge:SIMILAR]->(u) RETURN t.id AS one, u.id AS other, edge.cosine AS cosine ORDER BY one, other"


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, neo4j_servers: Servers) -> Place:
    return new_place(request.param, tmp_path, neo4j_servers)


@pytest.fixture
def registry(place: Place) -> Iterator[LocalRegistry]:
    with LocalRegistry.open(place.location, settings=place.settings, environ={}) as opened:
        yield opened


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """Four agents of the examples, and a copy of one of them under another name."""
    (whole,) = read_path(str(CATALOG), Settings())
    chosen = [
        entry for entry in whole.entries if entry.key in {"harbor-git", "burr-tracker", "bureau-fx", "cubby-files"}
    ]
    copied = next(entry for entry in chosen if entry.key == "bureau-fx")
    agent = replace(copied.agent, id="bureau-fx-2")
    tools = (sealed_tool(replace(t, id=f"bureau-fx-2/{t.name}", agent_id="bureau-fx-2")) for t in copied.tools)
    return replace(whole, entries=(*chosen, replace(copied, key="bureau-fx-2", agent=agent, tools=tuple(tools))))


def edges(registry: LocalRegistry) -> list[Any]:
    """Pairs of ids and their cosine."""
    return list(registry.operator.cypher(EDGES).rows)


def test_edges_are_linked_kept_true_and_removed(registry: LocalRegistry, manifest: Manifest) -> None:
    """All near pairs, once each; an ingest takes those of a changed tool alone; a new embedding, and unlink, all."""
    with pytest.raises(RegistryNotFound):
        link_tools(registry, None)
    sync(registry, manifest)
    linked = link_tools(registry, Nearness(mean_degree=4))
    tools = sum(len(entry.tools) for entry in manifest.entries)
    found = edges(registry)
    assert (linked.tools, linked.edges, len(found)) == (tools, 2 * tools, 2 * tools)
    assert min(row[2] for row in found) == pytest.approx(linked.least_cosine)
    assert registry.status().state.revision == linked.revision
    twins = {tuple(sorted((t.id, t.id.replace("bureau-fx/", "bureau-fx-2/")))) for t in registry.tools("bureau-fx")}
    assert twins <= {tuple(sorted(ends)) for *ends, _ in found}
    last = manifest.entries[-1]
    moved = sealed_tool(replace(last.tools[0], description="Feeds the lighthouse keeper's cat"))
    changed = replace(last, tools=(moved, *last.tools[1:]))
    sync(registry, replace(manifest, entries=(*manifest.entries[:-1], changed)))
    left = edges(registry)
    assert left == [edge for edge in found if moved.id not in edge] != []
    assert link_tools(registry, Nearness(above=0.999)).edges == len(twins) - 1
    assert link_tools(registry, None).edges == len(edges(registry)) == 0
    link_tools(registry, Nearness(nearest=1))
    assert {tool for *ends, _ in edges(registry) for tool in ends} == {tool.id for tool in registry.tools()}
    registry.reindex(texts="plain")
    assert edges(registry) == []


@pytest.mark.parametrize("numbers", [10**6, 7 * 90, 1])
def test_pairs_are_those_of_a_slow_computation(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a block; a candidate without a vector is near nothing."""
    monkeypatch.setattr(candidate_graph, "BLOCK_NUMBERS", numbers)
    vectors = np.random.default_rng(1).standard_normal((90, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[17] = 0
    cosines = vectors @ vectors.T
    pairs = sorted(((cosines[i, j], i, j) for i in range(90) for j in range(i + 1, 90)), reverse=True)
    by_degree = near_pairs(vectors, Nearness(mean_degree=4))
    assert {*map(tuple, by_degree.rows.tolist())} == {(i, j) for _, i, j in pairs[: 90 * 2]}
    assert list(by_degree.cosines) == pytest.approx([cosine for cosine, _, _ in pairs[: 90 * 2]], abs=1e-6)
    above = near_pairs(vectors, Nearness(above=0.5)).rows.tolist()
    assert {*map(tuple, above)} == {(i, j) for cosine, i, j in pairs if cosine >= 0.5}
    nearest = {
        tuple(sorted((i, j)))
        for i in range(90)
        for j in sorted(set(range(90)) - {i}, key=lambda j: -cosines[i, j])[:3]
        if cosines[i, j] > 0
    }
    assert {*map(tuple, near_pairs(vectors, Nearness(nearest=3)).rows.tolist())} == nearest


def test_impossible_nearness_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for above, degree in ((None, None), (0.5, 3.0), (0.0, None), (1.1, None), (None, -1.0), (None, 2e3)):
        with pytest.raises(InvalidSetting):
            Nearness(above=above, mean_degree=degree)
    monkeypatch.setattr(candidate_graph, "MAX_EDGES", 3)
    with pytest.raises(InvalidSetting, match="more than 3 pairs"):
        near_pairs(np.ones((4, 1), np.float32), Nearness(above=0.9))
    with LocalRegistry.open(":memory:", embedder="none", settings=Settings(), environ={}) as wordless:
        sync(wordless, Manifest(source="s"))
        with pytest.raises(InvalidSetting, match="no vectors"):
            link_tools(wordless, Nearness(above=0.9))
