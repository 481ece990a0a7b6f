"""The scan of vectors: exact where codes of a byte a number stand in for them, and a total order of equal scores."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.index.local import index_rows
from waygraph.registry.index.local.file import VECTOR, Columns, seal
from waygraph.registry.index.local.scoring import Codes, aligned_rows, best, candidates, code_row, encode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


@given(
    scores=st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]) | st.floats(-1, 1, width=32), max_size=300),
    depth=st.integers(1, 40),
)
def test_the_best_are_those_of_a_whole_sort(scores: Sequence[float], depth: int) -> None:
    """Best first, equal ones by their order, whatever the positions."""
    given_scores = np.asarray(scores, np.float32)
    expected = sorted(range(len(scores)), key=lambda place: (-given_scores[place], -place))
    found = best(given_scores, -np.arange(len(scores)), depth)
    assert found.tolist() == expected[:depth]


def unit_rows(rows: int, dimension: int, seed: int, *, alike: float = 0.0) -> "Vectors":
    drawn = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    drawn += np.float32(alike) * np.random.default_rng(seed + 1).normal(size=dimension).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def coded(vectors: "Vectors") -> Codes:
    codes = Codes.empty(*vectors.shape)
    for row, vector in enumerate(vectors):
        codes.codes[row], codes.scales[row], codes.errors[row] = encode(vector)
    return codes


@pytest.mark.parametrize("alike", [0.0, 3.0, 30.0])
def test_codes_find_what_the_vectors_find(alike: float) -> None:
    """Also where all are nearly the same, and codes alone would tell them apart wrongly."""
    pytest.importorskip("simsimd")
    vectors = unit_rows(3_000, 64, 1, alike=alike)
    codes, rows = coded(vectors), np.arange(3_000)
    for query in unit_rows(20, 64, 7, alike=alike):
        exact = np.vecdot(vectors, query)
        about, slack = codes.bounds(query, 3_000)
        assert (np.abs(about - exact) <= slack).all()
        near = candidates(about, slack, rows, 50, exact.__getitem__)
        found = near[best(exact[near], near, 50)]
        assert found.tolist() == best(exact, rows, 50).tolist()


def test_rows_begin_at_a_cache_line_and_are_zeros() -> None:
    for rows in (1, 17):
        made = aligned_rows(rows, 5)
        assert made.__array_interface__["data"][0] % 64 == 0
        assert made.shape == (rows, 5)
        assert not made.any()


def test_one_of_both_forms_is_there_while_an_index_outgrows_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks the former revision while the next is read finds its vectors or its codes."""
    monkeypatch.setattr(index_rows, "has_codes", lambda: True)
    monkeypatch.setattr(index_rows, "FLOAT_ROWS", 4)
    vectors = np.eye(8, dtype=np.float32)
    rows, seen = index_rows.Rows(8), list[bool]()

    class File:
        size = 4

        def fetch(self, statement: str, *given: int) -> list[tuple[Any, ...]]:
            seen.append(rows.floats is not None or rows.codes is not None)
            if "columns" not in statement:
                return [(row, seal(vectors[row].tobytes(), row)) for row in range(given[0], given[1])]
            codes = np.stack([np.frombuffer(code_row(vector), np.uint8) for vector in vectors[: self.size]])
            zeros = np.zeros(self.size, np.int32)
            block = Columns([f"a{row}" for row in range(self.size)], zeros, zeros + VECTOR, zeros, codes)
            return [(block.seal(0),)]

    file = File()
    rows.follow(file, 4)  # type: ignore[arg-type]
    assert isinstance(rows.floats, np.ndarray)
    seen.clear()
    file.size = 5
    rows.follow(file, 5)  # type: ignore[arg-type]
    assert seen
    assert all(seen)
    assert vars(rows)["floats"] is None
    assert rows.codes is not None
    assert rows.codes.codes[:5].argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
