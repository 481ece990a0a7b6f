"""A registry on a server under fire: readers beside writers, rivals, killed writers, a killed server."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from neo4j import GraphDatabase

from benchmarks.neo4j_server import Neo4jServer, start_server
from tests.faults import programs
from tests.faults.fleet import manifest
from tests.faults.processes import child
from tests.faults.soundness import sound_revision
from tests.faults.test_locks import stopped
from tests.neo4j_fixtures import TARGETS, neo4j_needed, wipe
from tests.processes_left import until
from tests.service import agent, assert_good, ingest, process
from waygraph.cypher import load
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import read_agents, read_claims, read_tools
from waygraph.registry.model.settings import DEFAULT_EMBEDDER

pytestmark = pytest.mark.skipif("given" in TARGETS, reason="a server that is given is not ours to kill")


@pytest.fixture(scope="module", params=list(TARGETS))
def killable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """One of our own."""
    with neo4j_needed(), start_server(TARGETS[request.param], tmp_path_factory.mktemp("neo4j")) as started:
        yield started


@pytest.fixture
def server(killable: Neo4jServer) -> Neo4jServer:
    """Empty; it may be killed, and is restarted before its test ends."""
    with GraphDatabase.driver(killable.uri, auth=killable.auth) as driver:
        wipe(driver)
    return killable


@pytest.mark.parametrize("embedder", ["none", DEFAULT_EMBEDDER])
@pytest.mark.parametrize("ingests", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_no_answer_is_of_two_revisions(server: Neo4jServer, ingests: int, embedder: str) -> None:
    """4 threads and another process route on while a process ingests; each text is of the Route's own revision."""
    with programs.opened(server.uri, embedder=embedder) as registry:
        sync(registry, manifest(1))
    with ExitStack() as stack:
        readers = [stack.enter_context(child(programs.route_on, server.uri, n, embedder)) for n in (4, 1)]
        for reader in readers:
            reader.hear()
        writer = stack.enter_context(child(programs.ingest_on, server.uri, 2, ingests, embedder))
        assert writer.said() == list(range(2, ingests + 1))
        time.sleep(0.2)
        answers, seen = stopped(readers)
    assert answers > ingests
    assert len(seen) >= 3
    assert ingests in seen
    assert sound_revision(server.uri) == ingests


@pytest.mark.parametrize("rounds", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_nothing_half_done(server: Neo4jServer, rounds: int) -> None:
    """After each kill the registry is whole at an acknowledged or a committed revision, and is written again."""
    chance, revision = random.Random(7), 0  # noqa: S311
    for _ in range(rounds):
        with child(programs.ingest_on, server.uri, revision + 1, revision + 1000, "none") as writer:
            acknowledged = writer.hear()
            time.sleep(chance.uniform(0, 1.0))
            writer.kill()
            acknowledged = max([acknowledged, *writer.said()])
        revision = sound_revision(server.uri)
        assert acknowledged <= revision <= acknowledged + 1


def test_a_server_killed_during_a_sync_loses_nothing(server: Neo4jServer) -> None:
    """The sync fails, or waits for the server; repeated on the same registry it completes, and all is there."""
    with programs.opened(server.uri) as registry:
        assert sync(registry, manifest(1)).revision == 1
        for number, delay_s in ((2, 0.0), (3, 0.3), (4, 1.0)):
            with child(programs.ingest_once, server.uri, number) as writer:
                time.sleep(delay_s)
                server.kill()
                server.restart()
                told, _ = writer.hear()
                assert told in ("done", "ServerUnavailable", "WriteConflict"), told
            assert sync(registry, manifest(number)).revision == number
            assert sound_revision(server.uri) == number


@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_two_writers_of_two_sources_lose_nothing(server: Neo4jServer, rounds: int) -> None:
    """Two processes sync a source each at once, in rounds: each commit is a revision, nothing is lost or doubled."""
    names = ("east", "west")
    with ExitStack() as stack:
        writers = [stack.enter_context(child(programs.sync_in_rounds, server.uri, name, rounds)) for name in names]
        told = [writer.said() for writer in writers]
    assert [len(revisions) for revisions in told] == [rounds, rounds]
    assert sorted(told[0] + told[1]) == list(range(1, 2 * rounds + 1))
    with programs.opened(server.uri) as registry:
        assert registry.status().state.revision == 2 * rounds
        held = {agent.id: agent.description for agent in registry.agents()}
        stated = [e.agent for name in names for e in rival(name, rounds).entries]
        assert held == {agent.id: agent.description for agent in stated}
        tools, claims, counts = registry.read(_contents)
    assert len(tools) == len(set(tools)) == counts["tools"] == counts["owns"]
    assert sorted(claims) == sorted((name, e.agent.id) for name in names for e in rival(name, rounds).entries)


def rival(source: str, number: int) -> Manifest:
    return programs.rival(source, number)


def _contents(session: GraphSession) -> tuple[list[str], list[tuple[str, str]], dict[str, int]]:
    assert read_agents(session)
    tools = [item.tool.id for item in read_tools(session)]
    claims = [(claim.source, claim.agent_id) for claim in read_claims(session)]
    return tools, claims, session.run(load("check/counts"))[0]


def test_a_service_is_ready_while_its_server_answers(server: Neo4jServer, tmp_path: Path) -> None:
    """Not before the first ingest, nor while the server is away; it comes back by itself."""
    with process(server.uri, tmp_path) as running:
        client = running.client()

        def status() -> int:
            assert_good(client.get("/healthz"))
            return client.get("/readyz").status_code

        assert status() == 503
        ingest(client, "s", agent("a"))
        assert status() == 200
        server.stop()
        assert status() == 503
        server.restart()
        assert until(lambda: status() == 200)
