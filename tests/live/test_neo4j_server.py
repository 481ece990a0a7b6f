"""The throw-away Neo4j itself, run from its jars: tests/neo4j_server.py, and the fixture of tests/neo4j_fixtures.py."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, LiteralString

import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import AuthError

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


@pytest.fixture(scope="module")
def open_server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """One that asks for nothing."""
    with neo4j_needed(), start_server(release, tmp_path_factory.mktemp("open")) as server:
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
    """It answers over Bolt, on loopback, and tells its version."""
    record_property(PROPERTY, f"Neo4j {release.version} (jars)")
    assert ask(server, "RETURN 1") == [[1]]
    assert ask(server, "CALL dbms.components() YIELD name, versions RETURN versions[0] LIMIT 1") == [[release.version]]
    assert server.uri == f"bolt://127.0.0.1:{server.port}"


@pytest.mark.parametrize("auth", [(USER, "another-password"), (USER, "neo4j"), None])
def test_a_wrong_password_is_refused(server: Neo4jServer, auth: tuple[str, str] | None) -> None:
    """Nobody gets in with another password, with Neo4j's own first one, or with none."""
    with GraphDatabase.driver(server.uri, auth=auth) as driver, pytest.raises(AuthError):
        driver.verify_connectivity()


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


def test_without_a_password_anybody_gets_in(open_server: Neo4jServer) -> None:
    """So it is where tests are not about passwords."""
    assert open_server.auth is None
    assert ask(open_server, "RETURN 1") == [[1]]


def test_stopping_leaves_no_process(open_server: Neo4jServer) -> None:
    """Neither the server nor its watcher is left, and its port is free; stopping again does nothing."""
    pid = open_server.pid
    open_server.stop()
    assert until(lambda: gone(pid))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", open_server.port))
    open_server.stop()


OWNER = """
    import subprocess, sys, time
    from tests.neo4j_server import start_tied

    print(start_tied(("sleep", "60"), subprocess.DEVNULL).pid, flush=True)
    time.sleep(60)
"""


def test_it_dies_with_the_process_that_started_it(root: Path) -> None:
    """Also when that one is killed and can clean up nothing."""
    with subprocess.Popen((sys.executable, "-c", textwrap.dedent(OWNER)), cwd=root, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert not gone(pid)
        owner.send_signal(signal.SIGKILL)
    assert until(lambda: gone(pid))


@pytest.mark.slow
def test_a_port_that_was_taken_is_replaced(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When somebody else takes the free port a moment before the server does, it starts on another."""
    free = neo4j_server._free_port
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = listening.getsockname()[1]
        ports = iter([taken])
        monkeypatch.setattr(neo4j_server, "_free_port", lambda: next(ports, None) or free())
        with neo4j_needed(), start_server(release, tmp_path) as server:
            assert server.port != taken
            assert ask(server, "RETURN 1") == [[1]]
    assert f"127.0.0.1:{taken}" in (tmp_path / "logs" / "neo4j.log").read_text(encoding="utf-8")


def test_a_server_that_does_not_start_says_why(release: Release, tmp_path: Path) -> None:
    """The last lines of its log are in the error, and no process is left."""
    broken = replace(release, flags=("-XX:NoSuchFlag",))
    with neo4j_needed(), pytest.raises(neo4j_server.StartFailed, match="NoSuchFlag"):
        start_server(broken, tmp_path)


def test_a_java_that_does_not_fit_is_named() -> None:
    """Without a fitting Java, one line says which is wanted and which were seen."""
    reason = neo4j_server.available(replace(LTS, java=(99,)))
    assert reason is not None
    assert reason.startswith("Neo4j 5.26.0 needs Java 99: set JAVA_HOME (seen: ")
    assert len(reason.splitlines()) == 1


MAVEN = """#!/bin/sh
echo "$@" >> "$0.asked"
sleep 0.5
for option; do
    case $option in -DoutputDirectory=*) mkdir -p "${option#*=}" && touch "${option#*=}/neo4j.jar" ;; esac
done
"""


def add_maven(folder: Path, script: str) -> Path:
    """A Maven of ours in `folder`; beside it, once it was called, a file with a line for each call."""
    maven = folder / "mvn"
    maven.write_text(script, encoding="utf-8")
    maven.chmod(0o755)
    return maven.with_name("mvn.asked")


def test_jars_are_fetched_once(root: Path, tmp_path: Path) -> None:
    """Two processes that want them at the same time get the same folder, and Maven is called by one."""
    asked = add_maven(tmp_path, MAVEN)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "WAYGRAPH_TEST_CACHE": str(tmp_path)}
    program = (sys.executable, "-c", "from tests.neo4j_server import LTS, jars; print(*jars(LTS).glob('*.jar'))")
    both = [subprocess.Popen(program, cwd=root, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0].strip() for process in both]
    assert said == [str(tmp_path / "neo4j" / LTS.version / "neo4j.jar")] * 2
    assert len(asked.read_text(encoding="utf-8").splitlines()) == 1


def test_half_fetched_jars_are_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When Maven fails, the error tells its first complaint, and the next attempt starts anew."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(neo4j_server.ENVIRON, "WAYGRAPH_TEST_CACHE", str(tmp_path))
    add_maven(tmp_path, f"{MAVEN}echo '[ERROR] no such artifact'; exit 1")
    with pytest.raises(NoServer, match="no such artifact"):
        neo4j_server.jars(LTS)
    add_maven(tmp_path, MAVEN)
    assert [jar.name for jar in neo4j_server.jars(LTS).glob("*.jar")] == ["neo4j.jar"]
