"""The benchmark of a million vectors, over few."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.million import SHARES, measure_recall, measure_times, search, write_index
from waygraph.registry.index.local.local_index import LocalIndex


def test_an_index_file_holds_the_vectors_with_noise(tmp_path: Path) -> None:
    """Each leg finds entities near to the vector that was asked for, agents and tools apart."""
    vectors = np.eye(16, dtype=np.float32)
    write_index(tmp_path, vectors, 1_000)
    with closing(LocalIndex.open(tmp_path)) as index:
        for vector in vectors:
            agents, tools = search(index, vector)
            assert {row % 10 for row in agents} == {0}
            assert {row % 10 for row in tools[:10]} <= {*range(1, 10)}
            near = np.stack([*index.vectors_of(index.ids(np.asarray(tools[:10]))).values()])
            assert (near.argmax(axis=1) == vector.argmax()).all()
    measures = {each.name: each.value for each in measure_times(tmp_path, vectors, 1_000)}
    assert measures["the 10 best of a leg found among 1000 rows"] == 1
    assert measures["vector legs over 1000 rows, by signs first / all compared"] > 0


def test_recall_counts_what_is_near_by_its_signs() -> None:
    """A row is nearest to itself; the more rows are looked at, the more of the best are found."""
    pytest.importorskip("simsimd")
    vectors = np.random.default_rng(1).normal(size=(1_000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tens = [each.value for each in measure_recall(vectors, vectors[:20]) if each.name.startswith("the 10 best")]
    assert len(tens) == len(SHARES)
    assert tens == sorted(tens)
    assert 0.1 <= tens[0] < tens[-1] < 1
