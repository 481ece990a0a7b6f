"""What is read on a real server while a writer commits: half of a commit is not planned over, not kept, not told."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from neo4j import Driver, GraphDatabase

from tests.neo4j_fixtures import wipe
from tests.neo4j_server import DATABASE, Target
from tests.sync_graph import entry, manifest
from waygraph import Settings
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.writer import WriteSession

Tamper = Callable[..., None]
BEGIN = "CREATE (:Commit {id: 'commit', token: 'other', since: timestamp()})"
ADVANCE = "MATCH (r:Registry) SET r.revision = r.revision + 1, r.commit = 'other'"
END = "MATCH (mark:Commit) DELETE mark"


@pytest.fixture
def tamper(neo4j_target: Target) -> Iterator[Tamper]:
    """Changes the graph behind the registry's back, as another writer's commit would that is seen piece by piece."""
    with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth, notifications_min_severity="OFF") as driver:
        wipe(driver)
        yield lambda *statements: run(driver, *statements)
        wipe(driver)


def run(driver: Driver, *statements: str) -> None:
    for statement in statements:
        driver.execute_query(statement, database_=DATABASE)  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.fixture
def registry(neo4j_target: Target, tamper: Tamper) -> Iterator[LocalRegistry]:
    user, password = neo4j_target.auth or ("neo4j", "")
    settings = Settings(embedder="none", neo4j_user=user, neo4j_password=password)
    with LocalRegistry.open(neo4j_target.uri, settings=settings, environ={}) as registry:
        sync(registry, manifest("a", entry("north"), entry("south")))
        yield registry


def fail(session: object) -> None:
    raise KeyError(f"by itself, over {session}")


def test_half_a_list_is_not_kept(registry: LocalRegistry, tamper: Tamper) -> None:
    """Read amid a commit, under the new revision's name: when the commit has ended the list is whole."""
    tamper(BEGIN, ADVANCE, "MATCH (a:Agent {id: 'south'}) REMOVE a:Agent SET a:Coming")
    assert list(registry.store.index(fresh=True).agents()) == ["north"]
    tamper("MATCH (a:Coming) REMOVE a:Coming SET a:Agent", END)
    assert [agent.id for agent in registry.agents()] == ["north", "south"]
    assert list(registry.store.index().agents()) == ["north", "south"]


def test_a_writer_goes_on_from_a_whole_revision(registry: LocalRegistry, tamper: Tamper) -> None:
    tamper(BEGIN, ADVANCE)
    began = []

    def write() -> None:
        with registry.writing() as session:
            began.append(time.monotonic())
            assert set(session.read_graph_view().agents) == {"north", "south", "west"}

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    tamper("MATCH (s:Agent {id: 'south'}) CREATE (a:Coming) SET a = properties(s), a.id = 'west' SET a:Agent")
    ended = time.monotonic()
    tamper(END)
    writer.join()
    assert began
    assert began[0] > ended


def test_what_is_planned_beside_a_commit_is_planned_anew(registry: LocalRegistry, tamper: Tamper) -> None:
    """Half of a commit leads to any error; what goes wrong by itself is told at once."""
    tried = []

    def work(session: WriteSession) -> str:
        tried.append(session.state())
        if len(tried) == 1:
            tamper(ADVANCE)
            raise KeyError("an agent that is claimed, and not there yet")
        return "planned"

    assert registry.change(work) == "planned"
    assert [state.revision for state in tried if state] == [1, 2]
    with pytest.raises(KeyError, match="by itself"):
        registry.change(fail)


def test_what_is_read_beside_a_commit_is_read_again(registry: LocalRegistry, tamper: Tamper) -> None:
    read = []

    def work(session: GraphSession) -> str:
        read.append(session)
        if len(read) == 1:
            tamper(ADVANCE)
            raise KeyError("an agent that is claimed, and not there yet")
        return "read"

    assert registry.read(work) == "read"
    assert len(read) == 2
    with pytest.raises(KeyError, match="by itself"):
        registry.read(fail)
