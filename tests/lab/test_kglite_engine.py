# ruff: noqa: F401 - the imported tests run here, on the engine of this file
"""KGLite behind the contract of graph engines: what every engine does, and every statement."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("kglite", reason="packages/waygraph-lab/src/benchmarks/engines/requirements.txt has it")

from benchmarks.engines.kglite_engine import KGLiteEngine
from benchmarks.engines.samples import fill
from tests.architecture.test_statements import test_a_statement_answers_what_it_declares
from tests.contract.test_engine import (
    test_a_block_sees_its_own_writes_and_others_do_not,
    test_a_closed_engine_answers_nothing,
    test_a_failed_write_leaves_nothing,
    test_a_value_that_no_engine_takes_is_our_error,
    test_an_error_that_is_swallowed_does_not_commit_half,
    test_ids_are_non_empty_strings,
    test_migrations_may_be_repeated,
    test_readers_beside_a_writer_see_no_mixture,
    test_the_first_error_is_the_one_seen,
    test_threads_that_write_lose_no_write,
    test_undeclared_parameters_are_refused,
    test_write_returns_what_the_work_returns,
)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KGLiteEngine]:
    opened = KGLiteEngine.open(tmp_path / "graph.kgl" if request.param == "file" else None)
    if "name" in request.fixturenames:
        fill(opened)
    yield opened
    opened.close()


@pytest.fixture
def embedded(engine: KGLiteEngine) -> KGLiteEngine:
    return engine
