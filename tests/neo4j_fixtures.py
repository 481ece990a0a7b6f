"""`neo4j_target`: a real Neo4j for the tests of one worker's session, and a line at the end that says which it was.

A pytest plugin. Without a server the tests are skipped, with the reason; WAYGRAPH_REQUIRE_NEO4J=1 makes them fail.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache

import pytest
from neo4j import Driver, ManagedTransaction

from benchmarks.neo4j_server import CALENDAR, ENVIRON, LTS, NoServer, Release
from tests.neo4j_server import DATABASE, GIVEN, Target, neo4j_for_tests
from waygraph.cypher import load, names
from waygraph.registry.index.neo4j_index import UNIQUE

RELEASES = {"5.26": LTS, "2026": CALENDAR}
PROPERTY = "neo4j"
"""Name of the property of a test that says which server it met; it travels with the report from xdist's workers."""

NO_SERVER = "no Neo4j to test with"

MADE = re.compile(r"^CREATE (?:CONSTRAINT|FULLTEXT INDEX) (\w+)", re.MULTILINE)
OWN_INDEXES = "SHOW INDEXES YIELD name, type, owningConstraint WHERE type <> 'LOOKUP' AND owningConstraint IS NULL"


def selected_releases(environ: Mapping[str, str] = ENVIRON) -> dict[str, Release]:
    """Those that WAYGRAPH_TEST_NEO4J_RELEASES lists, by name; 5.26 if it says nothing."""
    names = environ.get(f"{GIVEN}_RELEASES", "5.26").split(",")
    if unknown := [name for name in names if name not in RELEASES]:
        raise pytest.UsageError(f"{GIVEN}_RELEASES={','.join(unknown)} is not known; known: {', '.join(RELEASES)}")
    return {name: RELEASES[name] for name in names}


TARGETS = {"given": LTS} if ENVIRON.get(f"{GIVEN}_URI") else selected_releases()
"""A server that is given has its own release and is met once."""

SERVERS = tuple(f"neo4j {name}" for name in TARGETS)
"""The shared servers, as tests' parameters name them."""


@pytest.fixture(scope="session")
def neo4j_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """Name of a release → a server of it, started when it is first asked for. tests/conftest.py sends
    all tests that need it to one worker."""
    with ExitStack() as running:

        @cache
        def started(name: str) -> Target:
            folder = tmp_path_factory.mktemp("neo4j")
            with neo4j_needed():
                return running.enter_context(neo4j_for_tests(TARGETS[name], folder))
            raise AssertionError("unreachable")

        yield started


@pytest.fixture(scope="session", params=list(TARGETS), ids=SERVERS)
def neo4j_target(request: pytest.FixtureRequest, neo4j_servers: Callable[[str], Target]) -> Target:
    """The shared server: `wipe` it before you count on its being empty."""
    return neo4j_servers(request.param)


@contextmanager
def neo4j_needed() -> Iterator[None]:
    """Where no server can be had, the test is skipped; it fails if WAYGRAPH_REQUIRE_NEO4J=1."""
    try:
        yield
        return
    except NoServer as error:
        reason = f"{NO_SERVER}: {error}"
    if ENVIRON.get("WAYGRAPH_REQUIRE_NEO4J") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def wipe(driver: Driver) -> None:
    """Remove all nodes, constraints and indexes but the two that each database has. For graphs of a few thousand nodes:
    20 ms where there is nothing, some 300 ms after a schema with a dozen parts."""
    driver.execute_query("MATCH (node) DETACH DELETE node", database_=DATABASE)
    with driver.session(database=DATABASE) as session:
        session.execute_write(_drop_schema)


def empty(driver: Driver) -> None:
    """Remove all nodes, and of constraints and indexes those that are none of a registry's. `wipe` takes five times as
    long, most of it afterwards: the next registry makes its schema anew, and all that it asks is planned anew.

    What has a registry's name is taken for sound: a test that plants another under it wipes in the end.
    """
    driver.execute_query("MATCH (node) DETACH DELETE node", database_=DATABASE)
    with driver.session(database=DATABASE) as session:
        session.execute_write(_drop_schema, sparing=_of_a_registry())


@cache
def _of_a_registry() -> re.Pattern[str]:
    """The names of its constraints, and of its indexes of words and of vectors."""
    labels = ("", *UNIQUE)
    made = [MADE.search(load(name, label).text) for name in names() if "schema/" in name for label in labels]
    return re.compile("|".join([*(one[1] for one in made if one), r"(?:agent|capability)_vector_\d+"]))


def _drop_schema(transaction: ManagedTransaction, sparing: re.Pattern[str] | None = None) -> None:
    def spared(name: str) -> bool:
        return sparing is not None and sparing.fullmatch(name) is not None

    # Constraints first: with one of them goes the index that it made.
    for record in list(transaction.run("SHOW CONSTRAINTS YIELD name")):
        if not spared(record["name"]):
            transaction.run("DROP CONSTRAINT $name", name=record["name"])
    for record in list(transaction.run(OWN_INDEXES)):
        if not spared(record["name"]):
            transaction.run("DROP INDEX $name", name=record["name"])


def pytest_runtest_call(item: pytest.Item) -> None:
    """Note in the test's report which server it met."""
    target = item.funcargs.get("neo4j_target") if isinstance(item, pytest.Function) else None
    if target is not None:
        item.user_properties.append((PROPERTY, str(target)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all tests that a missing server skips one place, so that pytest tells of them in one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and NO_SERVER in report.longrepr[2]:
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each server that tests met: `Neo4j 5.26.0 (jars): 37 tests`."""
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    met = Counter(server for report in reports for server in _servers_of(report))
    for server, tests in sorted(met.items()):
        terminalreporter.write_line(f"{server}: {tests} tests")


def _servers_of(report: object) -> list[object]:
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return []
    return [value for name, value in report.user_properties if name == PROPERTY]
