"""A Neo4j for tests: one that is given, one in Docker, or one run here from Maven's jars."""

import gc
import secrets
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from neo4j import GraphDatabase

from benchmarks.neo4j_server import ENVIRON, USER, NoServer, Release, available, start_server

GIVEN = "WAYGRAPH_TEST_NEO4J"
"""Begins the names of the variables that name a server: …_URI, …_USER, …_PASSWORD."""

DATABASE = "neo4j"
"""The one that Community has."""


@dataclass(frozen=True)
class Target:
    """A running Neo4j to test against."""

    uri: str
    auth: tuple[str, str] | None
    version: str
    """As the server tells it: 5.26.0."""
    origin: str
    """given, Docker or jars."""

    def __str__(self) -> str:
        return f"Neo4j {self.version} ({self.origin})"


@contextmanager
def neo4j_for_tests(release: Release, folder: Path) -> Iterator[Target]:
    """The server that WAYGRAPH_TEST_NEO4J_URI names, whatever its release; else one in Docker; else one from jars, its
    data under `folder`. Raises NoServer."""
    if uri := ENVIRON.get(f"{GIVEN}_URI"):
        yield _target("given", uri, _given_auth())
    elif _docker_answers():
        with _container(release) as container:
            yield _target("Docker", container.get_connection_url(), (USER, container.password))
    elif reason := available(release):
        raise NoServer(f"{reason}, or name a server in {GIVEN}_URI")
    else:
        with start_server(release, folder) as server:
            yield _target("jars", server.uri, server.auth)


def _given_auth() -> tuple[str, str] | None:
    password = ENVIRON.get(f"{GIVEN}_PASSWORD")
    return (ENVIRON.get(f"{GIVEN}_USER", USER), password) if password else None


def _target(origin: str, uri: str, auth: tuple[str, str] | None) -> Target:
    with GraphDatabase.driver(uri, auth=auth, max_transaction_retry_time=1) as driver:
        components = driver.execute_query("CALL dbms.components() YIELD versions", database_=DATABASE).records
    return Target(uri, auth, version=components[0]["versions"][0], origin=origin)


def _docker_answers() -> bool:
    """Whether testcontainers is installed and reaches an engine."""
    try:
        import_module("testcontainers.community.neo4j")
        docker = import_module("docker")
    except ImportError:
        return False
    with warnings.catch_warnings():
        # Without an engine the Docker client forgets its sockets: collect them here, where nobody is told.
        warnings.simplefilter("ignore", ResourceWarning)
        answers = _pings(docker)
        gc.collect()
    return answers


def _pings(docker: Any) -> bool:
    try:
        with closing(docker.from_env(timeout=5)) as engine:
            return bool(engine.ping())
    except docker.errors.DockerException:
        return False


def _container(release: Release) -> Any:
    image = import_module("testcontainers.community.neo4j")
    return image.Neo4jContainer(release.image, username=USER, password=secrets.token_urlsafe(16))
