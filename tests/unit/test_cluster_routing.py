"""A cluster of Neo4j: who is asked for what, and with which bookmarks. Its members are scripted doubles that speak
Bolt (tests/bolt_cluster.py), not Neo4j: what is shown is the driver as the engine sets it up.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.bolt_cluster import Cluster
from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import CommitMark, GraphSession, Rows
from waygraph.registry.graph.neo4j import Neo4jEngine
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.model.errors import ServerUnavailable
from waygraph.registry.model.settings import Settings

READ, WRITE = load("state/read"), load("state/update")
ROUNDS = 6

Opened = Callable[..., Neo4jEngine]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One leader and two followers."""
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def opened(cluster: Cluster) -> Iterator[Opened]:
    """An engine for a URL that names a follower."""
    with ExitStack() as closing:

        def open_engine(bookmarks: list[str] | None = None) -> Neo4jEngine:
            location = ServerLocation.parse(f"neo4j://{cluster.followers[1].address}", "neo4j")
            engine = Neo4jEngine.open(location, Settings(), bookmarks or ())
            closing.callback(engine.close)
            return engine

        yield open_engine


def revision(session: GraphSession) -> int:
    """How many writes have reached the member that is asked."""
    return int(session.run(READ)[0]["revision"])


def write(engine: Neo4jEngine) -> None:
    engine.run(WRITE, props={"embedder": "none"})


def test_reads_go_to_followers_and_writes_to_the_leader(cluster: Cluster, opened: Opened) -> None:
    """Of every kind: a statement, a transaction that reads, a typed statement; one that writes, a transaction."""
    engine = opened()
    for _ in range(ROUNDS):
        write(engine)
        with engine.transaction() as session:
            session.run(WRITE, props={})
        revision(engine)
        with engine.reading() as session:
            session.run(READ)
        with engine.begin_typed(5.0, {}) as typed:
            _, rows = typed.run("RETURN 1", {})
            list(rows)
    assert cluster.writes == 2 * ROUNDS
    assert cluster.leader.seen == {"w": 2 * ROUNDS}
    assert sum(member.seen["r"] for member in cluster.followers) == 3 * ROUNDS
    assert all(member.seen["r"] and not member.seen["w"] for member in cluster.followers)


def test_a_process_reads_what_it_wrote(cluster: Cluster, opened: Opened) -> None:
    """By its bookmarks, from followers that nothing has reached yet; somebody else may read what was before."""
    writer, other = opened(), opened()
    write(writer)
    assert revision(other) == 0
    assert [revision(writer) for _ in range(ROUNDS)] == [1] * ROUNDS
    write(writer)
    assert revision(opened(bookmarks=writer.bookmarks())) == 2


def test_a_write_follows_the_leader(cluster: Cluster, opened: Opened) -> None:
    """The member that led refuses it; it is made once, by the one that leads now."""
    engine = opened()
    write(engine)
    former, leader = cluster.leader, cluster.followers[0]
    cluster.elect(leader)
    write(engine)
    assert (cluster.writes, former.seen["w"], leader.seen["w"]) == (2, 2, 1)
    assert revision(engine) == 2


def test_reads_go_on_without_a_follower(cluster: Cluster, opened: Opened) -> None:
    """By the other one, also where the dead one holds open connections of the pool."""
    engine = opened()
    write(engine)
    assert [revision(engine) for _ in range(ROUNDS)] == [1] * ROUNDS
    dead, living = cluster.followers
    dead.stop()
    before = living.seen["r"]
    assert [revision(engine) for _ in range(ROUNDS)] == [1] * ROUNDS
    assert living.seen["r"] == before + ROUNDS


def test_a_mark_that_cannot_be_cleared_fails_no_commit() -> None:
    """What was committed is committed: the mark counts no more once nobody renews it."""
    asked: list[str] = []

    def run(statement: Statement, params: Mapping[str, object]) -> Rows:
        asked.append(statement.name)
        if statement.name == "neo4j/commit/clear_mark":
            raise ServerUnavailable("there", "it went away")
        return []

    with CommitMark(run) as commit:
        commit.begin()
    assert asked == ["neo4j/commit/mark", "neo4j/commit/clear_mark"]
