"""The throw-away Neo4j itself, run from its jars: tests/neo4j_server.py, and the fixture of tests/neo4j_fixtures.py."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import pytest
from neo4j import GraphDatabase

from tests import neo4j_server
from tests.neo4j_fixtures import PROPERTY, neo4j_needed, selected_releases, wipe
from tests.neo4j_server import DATABASE, GIVEN, LTS, USER, Neo4jServer, NoServer, Release, start_server

PASSWORD = "an-unlikely-password"  # noqa: S105 - of a server that lives for a minute


@pytest.fixture(scope="module", params=list(selected_releases().values()), ids=list(selected_releases()))
def release(request: pytest.FixtureRequest) -> Release:
    chosen: Release = request.param
    return chosen


@pytest.fixture(scope="module")
def server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """One that asks for a password."""
    with neo4j_needed(), start_server(release, tmp_path_factory.mktemp("closed"), password=PASSWORD) as server:
        yield server


def ask(server: Neo4jServer, query: LiteralString, **parameters: Any) -> list[list[Any]]:
    """The rows that it answers with."""
    with GraphDatabase.driver(server.uri, auth=server.auth) as driver:
        return [record.values() for record in driver.execute_query(query, parameters, database_=DATABASE).records]


def until(holds: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def gone(group: int) -> bool:
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_is_the_release_that_was_asked_for(
    server: Neo4jServer, release: Release, record_property: Callable[[str, object], None]
) -> None:
    record_property(PROPERTY, f"Neo4j {release.version} (jars)")
    assert ask(server, "RETURN 1") == [[1]]
    assert ask(server, "CALL dbms.components() YIELD name, versions RETURN versions[0] LIMIT 1") == [[release.version]]
    assert server.uri == f"bolt://127.0.0.1:{server.port}"


def test_what_is_committed_outlives_a_kill(server: Neo4jServer) -> None:
    """After SIGKILL with a client connected, it comes back on the same port with the same data and password."""
    uri, pid = server.uri, server.pid
    with GraphDatabase.driver(uri, auth=server.auth) as driver:
        driver.execute_query("CREATE (:Ship {name: $name})", name="Erika", database_=DATABASE)
        server.kill()
        assert until(lambda: gone(pid))
        server.restart()
        assert server.uri == uri
        ships = driver.execute_query("MATCH (ship:Ship) RETURN ship.name AS name", database_=DATABASE).records
    assert [ship["name"] for ship in ships] == ["Erika"]


def test_wiping_leaves_an_empty_database(server: Neo4jServer) -> None:
    """Nodes, edges, constraints and indexes are gone; the two lookup indexes that Neo4j makes itself stay."""
    fresh = ask(server, "SHOW INDEXES YIELD name, type WHERE type = 'LOOKUP' RETURN name, type ORDER BY name")
    ask(server, "CREATE CONSTRAINT FOR (ship:Ship) REQUIRE ship.imo IS UNIQUE")
    ask(server, "CREATE FULLTEXT INDEX FOR (ship:Ship) ON EACH [ship.name]")
    ask(server, "CREATE (:Ship {imo: 1})-[:MOORED_AT]->(:Harbour)")
    with GraphDatabase.driver(server.uri, auth=server.auth) as driver:
        wipe(driver)
    assert ask(server, "MATCH (node) RETURN node") == []
    assert ask(server, "SHOW CONSTRAINTS") == []
    assert ask(server, "SHOW INDEXES YIELD name, type RETURN name, type ORDER BY name") == fresh


GIVEN_TEST = """
    from neo4j import GraphDatabase

    def test_given(neo4j_target):
        with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth) as driver:
            driver.verify_connectivity()

    def test_again(neo4j_target):
        assert neo4j_target.uri.startswith("bolt://")
"""


def run_pytest(root: Path, tmp_path: Path, *options: str, **environ: str) -> str:
    """What pytest writes of two tests that use `neo4j_target`, run with this project's settings."""
    (tmp_path / "test_given.py").write_text(textwrap.dedent(GIVEN_TEST), encoding="utf-8")
    ours = ("-c", "pyproject.toml", f"--rootdir={tmp_path}", "-p", "no:cacheprovider", "-p", "tests.neo4j_fixtures")
    command = (sys.executable, "-m", "pytest", *ours, *options, str(tmp_path))
    everything = {**os.environ, **environ}
    return subprocess.run(command, cwd=root, env=everything, capture_output=True, text=True, check=False).stdout


def test_a_given_server_is_used_and_named(server: Neo4jServer, root: Path, tmp_path: Path) -> None:
    """`neo4j_target` is the server of WAYGRAPH_TEST_NEO4J_URI; one line at the end tells its version, xdist or not."""
    given = {f"{GIVEN}_URI": server.uri, f"{GIVEN}_USER": USER, f"{GIVEN}_PASSWORD": PASSWORD}
    said = run_pytest(root, tmp_path, "-n", "1", **given)
    assert "2 passed" in said
    assert said.splitlines().count(f"Neo4j {server.release.version} (given): 2 tests") == 1


def test_without_a_server_tests_are_skipped(root: Path, tmp_path: Path) -> None:
    """With neither Java and Maven nor Docker, one line says what is missing."""
    nothing = {"PATH": str(tmp_path), "WAYGRAPH_TEST_CACHE": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/none"}
    said = run_pytest(root, tmp_path, **nothing)
    assert "2 skipped" in said
    (line,) = [line for line in said.splitlines() if line.startswith("SKIPPED")]
    assert f"Neo4j {LTS.version}" in line


def test_without_a_server_tests_fail_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """With WAYGRAPH_REQUIRE_NEO4J=1 the reason fails the test instead of skipping it."""
    monkeypatch.setitem(neo4j_server.ENVIRON, "WAYGRAPH_REQUIRE_NEO4J", "1")
    with pytest.raises(pytest.fail.Exception, match="no Java"), neo4j_needed():
        raise NoServer("no Java")
