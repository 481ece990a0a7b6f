"""The throw-away Neo4j itself, run from its jars, and the fixture of tests/neo4j_fixtures.py."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import pytest
from neo4j import GraphDatabase

from benchmarks import neo4j_server
from benchmarks.neo4j_server import Neo4jServer, NoServer, Release, start_server
from tests.neo4j_fixtures import neo4j_needed, selected_releases
from tests.neo4j_server import DATABASE

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


def test_without_a_server_tests_fail_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """With WAYGRAPH_REQUIRE_NEO4J=1 the reason fails the test instead of skipping it."""
    monkeypatch.setitem(neo4j_server.ENVIRON, "WAYGRAPH_REQUIRE_NEO4J", "1")
    with pytest.raises(pytest.fail.Exception, match="no Java"), neo4j_needed():
        raise NoServer("no Java")
