"""`waygraph migrate` to a graph server and back: what arrives, what a reader sees on the way, what goes on."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import pytest
from neo4j import Driver, GraphDatabase

from tests.faults.processes import child
from tests.migrations import EXAMPLES, ROWS, Richly, copy_and_stop_half_way, taken_from
from tests.neo4j_fixtures import wipe
from tests.neo4j_server import DATABASE, Target
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.contents import Contents
from waygraph.registry.index.neo4j_upkeep import ALL_TEXTS
from waygraph.registry.model.errors import CopyDiffers, RegistryNotFound, RegistryUnusable, WriteConflict
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage import migrate as migration
from waygraph.registry.storage.integrity.examine import examine_at
from waygraph.registry.storage.migrate import MigrationReport, Part, migrate_at, parts_of
from waygraph.registry.storage.server import ServerStore

HALF_WAY = 4
"""Parts: operators' words, then agents with tools, three of five."""


@pytest.fixture(scope="module")
def driver(neo4j_target: Target) -> Iterator[Driver]:
    """To look at the graph, and to empty it."""
    with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth) as opened:
        wipe(opened)
        yield opened
        wipe(opened)


@dataclass(frozen=True)
class Server:
    """A database and how to open it."""

    location: str
    settings: Settings
    driver: Driver

    def copy_from(self, source: Path | str, progress: Callable[[int, int], None] | None = None) -> MigrationReport:
        return migrate_at(str(source), self.location, self.settings, progress)

    def copy_half(self, source: Path) -> None:
        """As if it had ended there with an error."""
        told: list[int] = []

        def fail(done: int, total: int) -> None:
            told.append(done)
            if len(told) == HALF_WAY:
                raise LookupError("half-way")

        with pytest.raises(LookupError, match="half-way"):
            self.copy_from(source, fail)

    def store(self) -> ServerStore:
        return ServerStore.at(self.location, self.settings)

    def everything(self) -> list[str]:
        """All nodes and edges with all their properties, what is there for the index included."""
        nodes = self._rows("MATCH (n) WHERE NOT n:Migration AND NOT n:Commit RETURN labels(n) AS a, properties(n) AS p")
        edges = self._rows("MATCH (a)-[e]->(b) RETURN a.id AS a, b.id AS b, type(e) AS t, properties(e) AS p")
        for row in nodes:
            row["a"] = sorted(row["a"])
        return sorted(json.dumps(row, sort_keys=True) for row in [*nodes, *edges])

    def _rows(self, query: LiteralString) -> list[dict[str, Any]]:
        return [record.data() for record in self.driver.execute_query(query, database_=DATABASE).records]


@pytest.fixture
def server(neo4j_target: Target, driver: Driver) -> Server:
    """It holds no registry; its schema may be made."""
    driver.execute_query("MATCH (node) WHERE NOT node:Migration DETACH DELETE node", database_=DATABASE)
    user, password = neo4j_target.auth or ("neo4j", "")
    settings = Settings(neo4j_user=user, neo4j_password=password, neo4j_database=DATABASE, write_timeout_s=1)
    return Server(neo4j_target.uri, settings, driver)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "BATCH_ROWS", ROWS)


def test_a_registry_goes_to_a_server_and_back(rich: Richly, source: Path, server: Server, tmp_path: Path) -> None:
    """The export is the same byte for byte at every stop, routes are the same, and nothing is embedded.

    The doctor finds on the server that all is indexed as it should be, word counts included.
    """
    asked = len(rich.endpoint.requests)
    there = server.copy_from(source)
    back = tmp_path / "back.grafeo"
    home = migrate_at(server.location, str(back), server.settings)
    assert len(rich.endpoint.requests) == asked
    assert (home.sha256, home.copied) == (there.sha256, there.copied)
    exports = []
    for place in (source, server.location, back):
        with rich.open(place, server.settings) as registry:
            exports.append(registry.operator.export("json"))
    assert exports[1:] == exports[:1] * 2
    assert rich.routes(back) == rich.routes(source)
    findings = examine_at(server.location, deep=True, settings=server.settings, environ={})
    assert {finding.check: finding.detail for finding in findings if not finding.ok} == {}
    there_routes, here_routes = rich.routes(server.location, server.settings), rich.routes(source)
    assert names_of(there_routes) == names_of(here_routes)
    # Agents are written twice, once for their tools: Lucene counts the former texts too until it merges its files.
    assert scores_of(there_routes) == pytest.approx(scores_of(here_routes), abs=1e-3)


def names_of(routes: list[Any]) -> list[object]:
    """Agents, pinned ones, and their tools."""
    return [[(m.agent.id, [t.id for t in m.tools]) for m in (*matches, *pinned)] for matches, pinned, _ in routes]


def scores_of(routes: list[Any]) -> list[float]:
    return [match.score for matches, _, _ in routes for match in matches]


def test_an_empty_registry_takes_vectors_after_it_was_copied(rich: Richly, server: Server, tmp_path: Path) -> None:
    """The dimension comes with the first vectors; the index for them is made then."""
    place = tmp_path / "empty.grafeo"
    with rich.open(place) as registry:
        sync(registry, Manifest(source="nothing yet"))
    drop_vector_indexes(server.driver)
    assert server.copy_from(place).vectors == 0
    with rich.open(server.location, server.settings) as registry:
        for manifest in read_path(str(EXAMPLES / "bureau-fx.yaml"), Settings()):
            sync(registry, manifest)
        votes = [vote for match in registry.route("anything", recipe="agents").matches for vote in match.votes]
    assert {vote.leg for vote in votes} == {"agent_vector"}


def drop_vector_indexes(driver: Driver) -> None:
    found = driver.execute_query("SHOW INDEXES YIELD name, type WHERE type = 'VECTOR'", database_=DATABASE)
    for record in found.records:
        driver.execute_query("DROP INDEX $name", name=record["name"], database_=DATABASE)


def test_a_copy_that_was_cut_short_is_gone_on_with(source: Path, server: Server) -> None:
    """The second run writes what is missing, and the graph is then node for node that of a copy made at once."""
    whole = server.copy_from(source)
    at_once = server.everything()
    server.driver.execute_query("MATCH (node) WHERE NOT node:Migration DETACH DELETE node", database_=DATABASE)
    server.copy_half(source)
    rest = server.copy_from(source)
    assert whole.copied - rest.copied == 3 * ROWS
    assert rest.sha256 == whole.sha256
    assert server.everything() == at_once


def test_a_copy_that_was_killed_is_gone_on_with(source: Path, server: Server) -> None:
    """After SIGKILL nobody finds a registry, and the same call completes it."""
    with child(copy_and_stop_half_way, str(source), server.location, server.settings, HALF_WAY) as running:
        assert running.hear() == "half-way"
        running.kill()
        assert running.end() == -9
    with closing(server.store()) as store, pytest.raises(RegistryNotFound):
        store.index()
    done = server.copy_from(source)
    assert 0 < done.copied < done.agents + done.tools
    again = server.copy_from(source)
    assert (again.copied, again.sha256) == (0, done.sha256)


def test_half_a_copy_is_no_registry(rich: Richly, source: Path, server: Server, tmp_path: Path) -> None:
    """To open it, or to copy it on, is refused with the command that completes it."""
    server.copy_half(source)
    with pytest.raises(RegistryUnusable, match=r"is not whole. `waygraph migrate \S+ \S+` goes on with it"):
        rich.open(server.location, server.settings)
    with pytest.raises(RegistryUnusable, match="is not whole"):
        migrate_at(server.location, str(tmp_path / "on.grafeo"), server.settings)
    with closing(server.store()) as store, pytest.raises(RegistryNotFound):
        store.read(lambda session: session)


def test_nobody_makes_a_registry_of_half_a_copy(rich: Richly, source: Path, server: Server) -> None:
    """A writer that came before the copy does not write into it; once the copy is whole it goes on from there."""
    with rich.open(server.location, server.settings) as early:
        assert not early.store.exists
        server.copy_half(source)
        before = server.everything()
        with pytest.raises(WriteConflict):
            sync(early, Manifest(source="mine"))
        assert server.everything() == before
        revision = server.copy_from(source).revision
        early.operator.set("quarry-sql", tags=["mine"])
        assert early.status().state.revision == revision + 1


def test_half_a_copy_of_an_older_revision_is_cleared(
    rich: Richly, source: Path, server: Server, tmp_path: Path
) -> None:
    """Nothing stays of an agent that is gone since, and no text is counted twice."""
    place = taken_from(source, tmp_path / "moving.grafeo")
    server.copy_half(place)
    with rich.open(place) as registry:
        registry.operator.remove("bazaar-lane")
    done = server.copy_from(place)
    assert [row for row in server.everything() if "bazaar-lane/" in row] == []
    [counted] = [json.loads(row)["p"] for row in server.everything() if f'"id": "{ALL_TEXTS}"' in row]
    assert counted["agents"] == done.agents


def test_half_a_copy_of_another_registry_is_left_untouched(
    rich: Richly, source: Path, server: Server, tmp_path: Path
) -> None:
    other = tmp_path / "other.grafeo"
    with rich.open(other) as registry:
        for manifest in read_path(str(EXAMPLES / "bureau-fx.yaml"), Settings()):
            sync(registry, manifest)
    server.copy_half(source)
    before = server.everything()
    with pytest.raises(RegistryUnusable, match=r"a copy of .*source\.grafeo was begun there"):
        server.copy_from(other)
    assert server.everything() == before


def test_of_two_that_copy_the_first_gives_way(source: Path, server: Server) -> None:
    """The second takes over what the first has done; the first writes nothing more and says why."""
    done: list[MigrationReport] = []

    def take_over(rows: int, total: int) -> None:
        if not done and rows >= total / 2:
            done.append(server.copy_from(source))

    with pytest.raises(WriteConflict, match="has taken this copy over"):
        server.copy_from(source, take_over)
    assert server.copy_from(source).sha256 == done[0].sha256


def without_the_last_tool(whole: Contents, held: Collection[str]) -> list[Part]:
    other = copy(whole)
    vars(other)["tools"] = whole.tools[:-1]
    return parts_of(other, held)


def test_a_copy_that_differs_is_no_registry(source: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference is found before the copy counts; the next call begins anew, for nobody knows what is wrong."""
    with monkeypatch.context() as patch:
        patch.setattr(migration, "parts_of", without_the_last_tool)
        with pytest.raises(CopyDiffers, match="tools: 1 missing"):
            server.copy_from(source)
    with closing(server.store()) as store, pytest.raises(RegistryUnusable, match="is not whole"):
        assert store.exists
    done = server.copy_from(source)
    assert done.copied > done.agents + done.tools


def test_a_server_with_another_registry_is_left_untouched(rich: Richly, source: Path, server: Server) -> None:
    with rich.open(server.location, server.settings) as registry:
        for manifest in read_path(str(EXAMPLES / "bureau-fx.yaml"), Settings()):
            sync(registry, manifest)
    before = server.everything()
    with pytest.raises(RegistryUnusable, match="holds another registry already, at revision 1"):
        server.copy_from(source)
    assert server.everything() == before


def test_nodes_of_no_registry_are_left_untouched(source: Path, server: Server) -> None:
    server.driver.execute_query("CREATE (:Agent {id: 'Smith'})", database_=DATABASE)
    before = server.everything()
    with pytest.raises(RegistryUnusable, match="Agent"):
        server.copy_from(source)
    assert server.everything() == before


def test_a_server_without_a_registry_is_no_source(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RegistryNotFound):
        migrate_at(server.location, str(tmp_path / "x.grafeo"), server.settings)
    assert list(tmp_path.iterdir()) == []
