"""The scan of vectors: exact where codes of a byte a number stand in for them, and a total order of equal scores."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.index.local import index_rows
from waygraph.registry.index.local.file import VECTOR, Columns, Header, row_type
from waygraph.registry.index.local.scoring import Codes, aligned_rows, best, candidates, encode_vector
from waygraph.registry.model.changes import IndexState

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
        codes.codes[row], codes.scales[row], codes.errors[row] = encode_vector(vector)
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
    rows, seen = index_rows.Rows(), list[bool]()

    class File:
        def columns(self, header: Header, first: int) -> list[Columns]:
            assert first == 0
            seen.append(rows.embeddings is not None)
            numbers = np.zeros(header.rows, row_type(8))
            numbers["flags"] = VECTOR
            for row, vector in enumerate(vectors[: header.rows]):
                numbers["codes"][row], numbers["scale"][row], numbers["error"][row] = encode_vector(vector)
            return [Columns([f"a{row}" for row in range(header.rows)], [""] * header.rows, numbers)]

        def scan(self, table: str, first: int, last: int) -> list[tuple[int, bytes]]:
            assert table == "vector"
            return [(row, vectors[row].tobytes()) for row in range(first, last + 1)]

    state = IndexState(
        revision=1, agents=0, tools=0, embedder="", embedder_spec="", texts="names", dimension=8, schema_version=1
    )
    rows.follow(File(), Header(state=state, rows=4, buckets=1))  # type: ignore[arg-type]
    assert isinstance(rows.embeddings, np.ndarray)
    seen.clear()
    rows.follow(File(), Header(state=state, rows=5, buckets=1))  # type: ignore[arg-type]
    assert seen == [True]
    codes: object = vars(rows)["embeddings"]
    assert isinstance(codes, Codes)
    assert codes.codes[:5].argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
