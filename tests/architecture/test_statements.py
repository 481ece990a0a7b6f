"""Every statement file is used, runs on the embedded engine, and answers the columns it declares."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import waygraph_lab
from benchmarks.engines.samples import UNDO, fill, sample
from tests.architecture.tree import modules, syntax
from waygraph.cypher import load, names
from waygraph.cypher.loader import TYPES
from waygraph.registry.graph.engine import GraphEngine
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.schema import MIGRATIONS


@pytest.fixture
def engine() -> Iterator[GraphEngine]:
    """In memory: an agent `a` with a tool, claimed by a source `a`; one with a near tool that nobody claims."""
    engine = GrafeoEngine.open(None)
    fill(engine)
    yield engine
    engine.close()


@cache
def written_in_code() -> frozenset[str]:
    """Every text constant of the code and of the lab, and the statements that migrations name."""
    lab = Path(waygraph_lab.__file__).parent.rglob("*.py")
    constants = {
        node.value
        for path in (*modules().values(), *lab)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return frozenset(constants) | {each.name for migration in MIGRATIONS for each in migration.statements}


@pytest.mark.parametrize("name", names())
def test_a_statement_is_used(name: str) -> None:
    """No statement lies in the tree that no code names; one for Neo4j alone may stand in for the common one."""
    assert {name, name.removeprefix("neo4j/")} & written_in_code()


@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("neo4j/")])
def test_a_statement_answers_what_it_declares(name: str, engine: GraphEngine) -> None:
    """It runs; its columns are the declared ones, in that order, each of the declared type or null."""
    statement = load(name)
    if name in UNDO:
        engine.run(load(UNDO[name]), **sample(UNDO[name]))
    rows = engine.run(statement, **sample(name))
    if not statement.returns:
        assert rows == []
        return
    assert rows
    for row in rows:
        assert list(row) == list(statement.returns)
        for column, kind in statement.returns.items():
            assert row[column] is None or isinstance(row[column], TYPES[kind]), column
