"""`waygraph migrate` between files: what arrives, what is left when it is cut short, what is refused."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from copy import copy as copy_of
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.processes import child
from tests.migrations import Richly, copy_and_stop_half_way, files_of, taken_from
from waygraph.api.cli.app import main
from waygraph.cypher import load
from waygraph.cypher.loader import parse
from waygraph.registry.graph.contents import Contents
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.read import StoredAgent
from waygraph.registry.graph.schema import seen_migrations
from waygraph.registry.index.local.file import current_path, folder_of
from waygraph.registry.model.errors import CopyDiffers, InvalidSetting, RegistryNotFound, RegistryUnusable
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage import migrate as migration
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.export.formats import as_json
from waygraph.registry.storage.graph_copy import open_copy
from waygraph.registry.storage.integrity.examine import IndexDump, examine_at
from waygraph.registry.storage.migrate import MigrationReport, migrate_at, parts_of, repair_at
from waygraph.registry.storage.noun_list import read_whole

Copy = Callable[[], MigrationReport]


@pytest.fixture
def own(rich: Richly, source: Path, tmp_path: Path) -> Path:
    """One that a test may change; a revision later it is another registry."""
    path = taken_from(source, tmp_path / "own.grafeo")
    with rich.open(path) as registry:
        registry.operator.set("quarry-sql", tags=["mine"])
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.grafeo"


@pytest.fixture
def copy(source: Path, target: Path) -> Copy:
    return lambda: migrate_at(str(source), str(target), Settings())


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """So small that agents are parted from their tools."""
    monkeypatch.setattr(migration, "BATCH_ROWS", 7)
    return 7


def everything(path: Path) -> list[str]:
    """All nodes and edges of the graph with all their properties; when its schema was made apart."""
    with open_copy(path, folder_of(path)) as copy, closing(GrafeoEngine.open_copy(copy)) as engine:
        database = engine._database
        nodes = database.execute_cypher("MATCH (n) WHERE NOT n:Migration RETURN labels(n) AS l, n AS n")
        edges = database.execute_cypher("MATCH (a)-[e]->(b) RETURN a.id AS a, type(e) AS t, e AS e, b.id AS b")
        rows = [*map(dict, nodes), *map(dict, edges)]
    for row in rows:
        for entity in ("n", "e"):
            row[entity] = {k: v for k, v in row.get(entity, {}).items() if not k.startswith("_")}
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def held_at(path: Path) -> Contents:
    with closing(EmbeddedStore(path, Settings())) as store:
        return store.read(read_whole)


def exists(path: Path) -> bool:
    with closing(EmbeddedStore(path, Settings())) as store:
        return store.exists


def test_every_node_edge_and_property_arrives(source: Path, target: Path, copy: Copy, small_parts: int) -> None:
    """Vectors, claims with their times, operators' words on agents that are gone, embedder and revision included."""
    copy()
    assert everything(target) == everything(source)
    assert len(everything(target)) > 36 + 186


def test_a_copy_answers_the_same(rich: Richly, source: Path, target: Path, copy: Copy) -> None:
    copy()
    assert rich.routes(target) == rich.routes(source)
    with rich.open(source) as old, rich.open(target) as new:
        assert new.operator.export("json") == old.operator.export("json")
    findings = examine_at(target, deep=True, settings=Settings(), environ={})
    assert [finding for finding in findings if not finding.ok] == []


def test_nothing_is_embedded_and_the_source_is_only_read(rich: Richly, source: Path, copy: Copy) -> None:
    before, asked = files_of(source), len(rich.endpoint.requests)
    copy()
    assert len(rich.endpoint.requests) == asked
    assert files_of(source) == before


def test_a_copy_can_be_written_to(rich: Richly, target: Path, copy: Copy) -> None:
    revision = copy().revision
    with rich.open(target) as registry:
        registry.operator.set("quarry-sql", tags=["mine"])
        assert registry.status().state.revision == revision + 1


def test_an_error_half_way_leaves_no_registry(source: Path, target: Path, copy: Copy, small_parts: int) -> None:
    def fail(done: int, total: int) -> None:
        if 2 * done > total:
            raise LookupError("half-way")

    with pytest.raises(LookupError, match="half-way"):
        migrate_at(str(source), str(target), Settings(), fail)
    assert not exists(target)
    with pytest.raises(RegistryNotFound):
        held_at(target)
    assert copy().copied
    assert everything(target) == everything(source)


def test_a_copy_that_was_killed_half_way_is_made_again(source: Path, target: Path, copy: Copy) -> None:
    with child(copy_and_stop_half_way, str(source), str(target), Settings(), 2) as running:
        assert running.hear() == "half-way"
        running.kill()
        assert running.end() == -9
    assert not exists(target)
    assert copy().copied
    assert everything(target) == everything(source)


def test_a_copy_that_is_there_is_compared_and_left(target: Path, copy: Copy) -> None:
    first = copy()
    before = files_of(target)
    second = copy()
    assert (second.copied, second.sha256) == (0, first.sha256)
    assert files_of(target) == before


def _change(held: Contents, **parts: object) -> Contents:
    """Another one, with other parts."""
    other = copy_of(held)
    vars(other).update(parts)
    return other


def _first(held: Contents, **fields: Any) -> dict[str, StoredAgent]:
    """The agents, the first with other fields."""
    name, item = next(iter(held.agents.items()))
    return held.agents | {name: replace(item, **fields)}


def _other_vector(held: Contents) -> Contents:
    """One number of one vector is the next float."""
    vectors = {entity: vector.copy() for entity, vector in held.vectors.items()}
    vector = vectors["quarry-sql/run_query"]
    vector[5] = np.nextafter(vector[5], np.float32(2))
    return _change(held, vectors=vectors)


def _without_a_word(held: Contents) -> Contents:
    """What an operator said of an agent that is gone."""
    return _change(held, settings={name: said for name, said in held.settings.items() if not said.removed})


PLANTED: dict[str, tuple[Callable[[Contents], Contents], str]] = {
    "agent": (
        lambda held: _change(
            held, agents=_first(held, agent=replace(next(iter(held.agents.values())).agent, version="9"))
        ),
        "agents: 1 different (bazaar-lane)",
    ),
    "bundle hash": (
        lambda held: _change(held, agents=_first(held, bundle_hash="x")),
        "agents: 1 different (bazaar-lane)",
    ),
    "tool": (lambda held: _change(held, tools=held.tools[1:]), "tools: 1 missing (bazaar-lane/"),
    "owner": (
        lambda held: _change(
            held,
            tools=[replace(held.tools[0], tool=replace(held.tools[0].tool, agent_id="quarry-sql")), *held.tools[1:]],
        ),
        "tools: 1 different (bazaar-lane/",
    ),
    "vector key": (
        lambda held: _change(held, tools=[replace(held.tools[0], vector_key="x"), *held.tools[1:]]),
        "vectors: 1 different (bazaar-lane/",
    ),
    "vector": (_other_vector, "vectors: 1 different (quarry-sql/run_query)"),
    "source": (
        lambda held: _change(held, sources=[replace(held.sources[0], rank=1), *held.sources[1:]]),
        "sources: 1 different (catalogue)",
    ),
    "empty source": (lambda held: _change(held, sources=held.sources[:-1]), "sources: 1 missing (nothing yet)"),
    "claim": (lambda held: _change(held, claims=held.claims[1:]), "claims: 1 missing (catalogue of bazaar-lane)"),
    "since": (
        lambda held: _change(held, claims=[replace(held.claims[0], since="2020"), *held.claims[1:]]),
        "claims: 1 different (catalogue of bazaar-lane)",
    ),
    "operator": (_without_a_word, "settings: 1 missing (skylark-travel)"),
}
"""What is written in place of what was read, and what the comparison says to it."""


@pytest.mark.parametrize("what", PLANTED)
def test_a_copy_that_differs_is_no_registry(
    what: str, target: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, said = PLANTED[what]
    monkeypatch.setattr(migration, "parts_of", lambda whole, held: parts_of(spoil(whole), held))
    with pytest.raises(CopyDiffers) as found:
        copy()
    assert any(line.startswith(said) for line in found.value.differences), found.value
    assert not exists(target)


def test_a_registry_node_that_differs_is_found(target: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revision, embedder, texts and schema are compared too; without a difference the same call succeeds."""
    create = load("state/create")
    spoilt = replace(create, text=create.text.replace("RETURN", "SET registry.texts = 'plain' RETURN"))
    with monkeypatch.context() as patch:
        patch.setattr(migration, "_STATE_CREATE", spoilt)
        with pytest.raises(CopyDiffers, match=r"registry: 1 different \(texts\)"):
            copy()
    assert not exists(target)
    assert copy().copied


def test_a_target_with_another_registry_is_left_untouched(rich: Richly, own: Path, copy: Copy, source: Path) -> None:
    before = files_of(own)
    with pytest.raises(RegistryUnusable, match=r"it holds another registry already, at revision 8"):
        migrate_at(str(source), str(own), Settings())
    assert files_of(own) == before


def test_a_registry_that_came_meanwhile_is_left_untouched(
    rich: Richly, own: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was made after the target was looked at is seen under the lock."""
    monkeypatch.setattr(migration, "_state", lambda _: None)
    with rich.open(own) as registry:
        before = registry.status()
        with pytest.raises(RegistryUnusable, match="holds another registry"):
            migrate_at(str(source), str(own), Settings())
        assert registry.status() == before


def test_a_registry_is_not_copied_to_itself(source: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.grafeo"
    link.symlink_to(source)
    for same in (source, link, source.parent / ".." / source.parent.name / source.name):
        with pytest.raises(InvalidSetting, match="cannot be copied to itself"):
            migrate_at(str(source), str(same), Settings())


def test_the_command_tells_what_it_did(source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", str(source), str(target)]) == 0
    first = capsys.readouterr()
    assert dict(line.split("\t") for line in first.out.splitlines())["to"] == str(target)
    assert first.err == ""
    assert main(["migrate", str(source), str(target), "--json"]) == 0
    second = capsys.readouterr()
    assert json.loads(second.out)["copied"] == 0
    assert second.err == "note: the copy was there already; it was compared and left as it is\n"


def test_a_repair_from_the_index_brings_all_but_the_log_of_changes(source: Path, own: Path) -> None:
    """Every node, edge and property, vectors and claims included; the index needs none made anew."""

    def lasting(rows: list[str]) -> list[str]:
        changes = {f'"a": "{row["n"]["id"]}"' for row in map(json.loads, rows) if row.get("l") == ["Change"]}
        return [row for row in rows if '"l": ["Change"]' not in row and not any(each in row for each in changes)]

    before, shown = everything(own), index_of(own)
    shutil.copy(source, own)
    assert repair_at(str(own), Settings()) is not None
    assert everything(own) == lasting(before)
    assert index_of(own) == shown


def index_of(path: Path) -> tuple[Path | None, Mapping[str, Mapping[str, Any]]]:
    """Its file, and what that holds: one that is made anew has a number of its own."""
    return current_path(folder_of(path)), IndexDump.of(folder_of(path)).parts


def test_an_export_of_the_index_is_that_of_the_graph(rich: Richly, source: Path) -> None:
    """It shows what lists show, and what sources state where operators said something else."""
    with rich.open(source) as registry:
        assert registry.operator.export("json") == as_json(held_at(source))


def test_who_reads_an_older_registry_leaves_its_graph(rich: Richly, own: Path) -> None:
    """Its index is made anew, also by a doctor; the older Waygraph may write on. A write brings it to this schema."""

    def migrations() -> set[int]:
        with closing(GrafeoEngine.open_copy(own)) as engine:
            return seen_migrations(engine, str(own))

    with closing(GrafeoEngine.open(own)) as engine:
        engine.run(parse("test/older", f"// x\n// params: none\n// returns: none\n{OLDER}"))
    shutil.rmtree(folder_of(own))
    before = own.read_bytes()
    with rich.open(own) as registry:
        assert registry.agents()
        assert registry.operator.export("json")
        assert registry.operator.changes()
    assert [each for each in examine_at(own, deep=True, environ={}) if each.check == "live graph" and each.ok]
    assert (own.read_bytes(), migrations()) == (before, {1, 2, 3, 4, 5})
    with rich.open(own) as registry:
        registry.operator.set("quarry-sql", tags=["other"])
    assert migrations() == {1, 2, 3, 4, 5, 6, 7}


OLDER = """
MATCH (registry:Registry) SET registry.schema_version = 5
WITH registry MATCH (migration:Migration) WHERE migration.id IN ['6', '7'] DETACH DELETE migration
"""
