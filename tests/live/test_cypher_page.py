"""The questions of docs/cypher.md, asked of a registry on Neo4j: the rows are those of a registry in a file."""

from collections.abc import Iterator

import pytest
from neo4j import Driver, GraphDatabase

from tests.cypher_page import ANSWERS, DIFFERENCES, documented, fill, labels_of, properties_of, questions
from tests.neo4j_server import DATABASE, Target
from tests.places import on_server
from waygraph import Settings
from waygraph.registry.model.errors import CypherError
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture(scope="module")
def registry(neo4j_target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    folder = tmp_path_factory.mktemp("page")
    place = on_server(neo4j_target, Settings(data_dir=str(folder)))
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        fill(opened, folder)
        yield opened


@pytest.fixture
def driver(neo4j_target: Target) -> Iterator[Driver]:
    with GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth) as opened:
        yield opened


@pytest.mark.parametrize("title", ANSWERS)
def test_a_question_has_its_answer(title: str, registry: LocalRegistry) -> None:
    """The statement as it stands on the page runs read-only and gives the same rows as of a file, in this order."""
    result = registry.operator.cypher(questions()[title])
    assert [*result.rows] == ANSWERS[title]
    assert not result.truncated


def test_what_belongs_to_nobody_is_found(registry: LocalRegistry, driver: Driver) -> None:
    """A tool without an agent is counted as such: the question would tell of it."""
    driver.execute_query("CREATE (:Tool {id: 'lost/tool'})", database_=DATABASE)
    rows = registry.operator.cypher(questions()["What belongs to nobody"]).rows
    driver.execute_query("MATCH (t:Tool {id: 'lost/tool'}) DELETE t", database_=DATABASE)
    assert rows[0] == ("tools without an agent", 1)


def test_the_graph_is_as_documented(registry: LocalRegistry) -> None:
    """The page names every label, and every property that a node or edge has on a server."""
    common, besides = documented()
    told = {pattern: common.get(pattern, set()) | besides.get(pattern, set()) for pattern in {**common, **besides}}
    entities = told["(:Agent)"] | told["(:Tool)"]
    for label in labels_of(registry):
        known = entities if label in ("(:Capability)", "(:Apart)") else told[label]
        assert properties_of(registry, label) - known == set(), label
    for pattern in (pattern for pattern in common if "[" in pattern):
        assert properties_of(registry, pattern) - told[pattern] == set(), pattern


def test_the_indexes_are_as_documented(registry: LocalRegistry, driver: Driver) -> None:
    found = driver.execute_query("SHOW INDEXES YIELD name, type WHERE type = 'FULLTEXT'", database_=DATABASE).records
    assert sorted(record["name"] for record in found) == ["agent_text", "capability_text", "name"]


@pytest.mark.parametrize("what", DIFFERENCES)
def test_the_engine_differs_as_documented(what: str, registry: LocalRegistry) -> None:
    """What the page's table says of Neo4j is so; where nothing is expected, the statement may be refused as well."""
    statement, _, expected = DIFFERENCES[what]
    try:
        answer = registry.operator.cypher(statement).rows[0][0]
    except CypherError:
        answer = None
    assert answer == expected
