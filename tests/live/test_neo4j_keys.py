"""What is read on a real server for a change of one agent does not grow with the others; any listed member will do."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from neo4j import GraphDatabase

from tests.neo4j_fixtures import SERVERS, empty, wipe
from tests.neo4j_server import Target
from tests.places import Servers, new_place, server_engine
from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.cypher import Statement, load
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import GraphEngine, GraphSession, Rows
from waygraph.registry.graph.neo4j import Neo4jEngine
from waygraph.registry.index.neo4j_upkeep import keep_index
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.server import ServerStore

Opened = Callable[[str], LocalRegistry]


@pytest.fixture
def opened(neo4j_target: Target) -> Iterator[Opened]:
    """By a URL, over an empty database."""
    user, password = neo4j_target.auth or ("neo4j", "")
    settings = Settings(embedder="none", neo4j_user=user, neo4j_password=password)
    with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth, notifications_min_severity="OFF") as driver:
        empty(driver)
        yield lambda uri: LocalRegistry.open(uri, settings=settings, environ={})
        empty(driver)


class Counted:
    """A session that counts the rows it reads."""

    def __init__(self, session: GraphSession) -> None:
        self._session, self.rows = session, 0

    def run(self, statement: Statement, /, **params: object) -> Rows:
        rows = self._session.run(statement, **params)
        self.rows += len(rows)
        return rows


def rows_of_upkeep(registry: LocalRegistry) -> int:
    assert isinstance(registry.store, ServerStore)
    with registry.store.engine.transaction() as session:
        counted = Counted(session)
        with keep_index(counted, ["north"]):
            pass
    return counted.rows


def add_others(registry: LocalRegistry) -> None:
    sync(registry, manifest("others", *(entry(f"other-{number}") for number in range(20))))
    registry.operator.set("other-1", pinned=True)


def test_upkeep_of_one_agent_reads_that_agent(opened: Opened, neo4j_target: Target) -> None:
    with opened(neo4j_target.uri) as registry:
        sync(registry, manifest("one", entry("north")))
        before = rows_of_upkeep(registry)
        add_others(registry)
        assert rows_of_upkeep(registry) == before > 0


def test_a_route_after_a_change_reads_no_list_of_agents(
    opened: Opened, neo4j_target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no calls are counted and no tool says what it gives."""
    rows = 0
    run = Neo4jEngine._run_at_once

    def count(engine: Neo4jEngine, statement: Statement, params: Mapping[str, object]) -> Rows:
        nonlocal rows
        answer = run(engine, statement, params)
        rows += len(answer)
        return answer

    monkeypatch.setattr(Neo4jEngine, "_run_at_once", count)
    counts = []
    with opened(neo4j_target.uri) as registry:
        sync(registry, manifest("one", entry("north")))
        registry.route("the first one opens the index")
        for change in (lambda: sync(registry, manifest("two", entry("south"))), lambda: add_others(registry)):
            change()
            rows = 0
            assert registry.route("does things").matches
            counts.append(rows)
    assert counts[0] == counts[1] > 0


WRITERS, ROUNDS = 4, 8


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("index", ["agent_text", "agent_vector_8"])
def test_writers_that_begin_together_all_find_an_index(
    server: str, index: str, tmp_path: Path, neo4j_servers: Servers
) -> None:
    """A server refuses all but one of those that define it at once, though each says `IF NOT EXISTS`."""
    with closing(server_engine(new_place(server, tmp_path, neo4j_servers, clear=wipe))) as engine:
        engine.define(load("schema/unique_id", "Agent"))  # so that there is the label
        for _ in range(ROUNDS):
            engine.run(load("neo4j/schema/drop_index"), name=index)
            together = Barrier(WRITERS)
            with ThreadPoolExecutor(WRITERS) as writers:
                done = [writers.submit(defined, engine, index, together) for _ in range(WRITERS)]
            assert [each.result() for each in done] == [None] * WRITERS
            held = [row["name"] for row in engine.run(load("neo4j/check/indexes"))]
            assert held.count(index) == 1


def defined(engine: GraphEngine, index: str, together: Barrier) -> None:
    together.wait()
    if index == "agent_text":
        engine.define(load("neo4j/schema/agent_text"))
    else:
        config = {"vector.dimensions": 8, "vector.similarity_function": "cosine"}
        engine.define(load("neo4j/schema/agent_vectors"), name=index, options={"indexConfig": config})
