"""The questions of docs/cypher.md, asked of a registry in a file: each has the answer that it should have."""

from collections.abc import Iterator

import pytest

from tests.cypher_page import ANSWERS, DIFFERENCES, PAGE, documented, fill, labels_of, properties_of, questions
from tests.docs.pages import rows
from waygraph import Settings
from waygraph.registry.graph.schema import GRAPH
from waygraph.registry.model.errors import CypherError
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    folder = tmp_path_factory.mktemp("page")
    chosen = Settings(data_dir=str(folder))
    with LocalRegistry.open(folder / "page.grafeo", embedder="none", settings=chosen, environ={}) as opened:
        fill(opened, folder)
        yield opened


def test_every_question_has_its_answer_here() -> None:
    """The page and the answers in tests/cypher_page.py hold the same titles; there are a dozen at least."""
    assert list(questions()) == list(ANSWERS)
    assert len(ANSWERS) >= 12


@pytest.mark.parametrize("title", ANSWERS)
def test_a_question_has_its_answer(title: str, registry: LocalRegistry) -> None:
    """The statement as it stands on the page runs read-only and gives these rows, in this order."""
    result = registry.operator.cypher(questions()[title])
    assert [*result.rows] == ANSWERS[title]
    assert not result.truncated


def test_the_graph_is_as_documented(registry: LocalRegistry) -> None:
    """The page has the table of the schema, which names every label, and every property that a node or edge has."""
    common, _ = documented()
    assert common == {kind: set(properties.split()) for kind, properties in GRAPH.items()}
    assert labels_of(registry) == {pattern for pattern in common if "[" not in pattern}
    for pattern, properties in common.items():
        assert properties_of(registry, pattern) - properties == set(), pattern


@pytest.mark.parametrize("what", DIFFERENCES)
def test_the_engine_differs_as_documented(what: str, registry: LocalRegistry) -> None:
    """What the page's table says of Grafeo is so; where nothing is expected, the engine may refuse as well."""
    assert what in [cells[0] for cells in rows(PAGE)]
    statement, expected, _ = DIFFERENCES[what]
    assert answer_or_none(registry, statement) == expected


def answer_or_none(registry: LocalRegistry, statement: str) -> object:
    try:
        return registry.operator.cypher(statement).rows[0][0]
    except CypherError:
        return None
