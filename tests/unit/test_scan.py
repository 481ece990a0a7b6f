"""The scan of vectors: exact where codes of a byte a number stand in for them, and a total order of equal scores."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.index.local import index_rows, local_index
from waygraph.registry.index.local.file import (
    Columns,
    Flag,
    Header,
    create_file,
    encode,
    folder_of,
    open_to_write,
    path_of,
    row_type,
)
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.local.scoring import Codes, aligned_rows, best, candidates, encode_vector
from waygraph.registry.index.search_index import Leg, QueryText, Scope, record_of
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.nouns import Agent, Principal
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.embedded import EmbeddedStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Places = NDArray[np.int64]


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


def numbers_of(vectors: "Vectors") -> "NDArray[np.void]":
    numbers = np.zeros(len(vectors), row_type(vectors.shape[1]))
    numbers["flags"] = Flag.VECTOR
    for row, vector in enumerate(vectors):
        numbers["codes"][row], numbers["scale"][row], numbers["error"][row] = encode_vector(vector)
    return numbers


def coded(vectors: "Vectors") -> Codes:
    codes = Codes.empty(*vectors.shape)
    codes.put(0, numbers_of(vectors))
    return codes


@pytest.mark.parametrize("alike", [0.0, 3.0, 30.0])
def test_codes_find_what_the_vectors_find(alike: float) -> None:
    """Also where all are nearly the same, and codes alone would tell them apart wrongly."""
    pytest.importorskip("simsimd")
    vectors = unit_rows(3_000, 64, 1, alike=alike)
    codes, rows = coded(vectors), np.arange(3_000)
    for query in unit_rows(20, 64, 7, alike=alike):
        exact = np.vecdot(vectors, query)
        about, slack = codes.bounds(query, slice(0, 3_000))
        for whole, some in zip((about, slack), codes.bounds(query, rows[::7]), strict=True):
            assert whole[::7].tolist() == some.tolist()
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


def state_of(dimension: int) -> IndexState:
    return IndexState(
        revision=1,
        agents=0,
        tools=0,
        embedder="",
        embedder_spec="",
        texts="names",
        dimension=dimension,
        schema_version=1,
    )


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
            numbers = numbers_of(vectors[: header.rows])
            return [Columns([f"a{row}" for row in range(header.rows)], [""] * header.rows, numbers)]

        def vectors(self, rows: "Places", *_: object) -> "Vectors":
            return vectors[rows]

    state = state_of(8)
    rows.follow(File(), Header(state=state, rows=4, buckets=1))  # type: ignore[arg-type]
    assert isinstance(rows.embeddings, np.ndarray)
    seen.clear()
    rows.follow(File(), Header(state=state, rows=5, buckets=1))  # type: ignore[arg-type]
    assert seen == [True]
    codes: object = vars(rows)["embeddings"]
    assert isinstance(codes, Codes)
    assert codes.codes[:5].argmax(axis=1).tolist() == [0, 1, 2, 3, 4]


TOOLS_OF_AGENT, LEGS = 7, tuple[Leg, ...](("agent_vector", "tool_vector"))


@pytest.fixture
def small_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of more than 16 rows, and of more than 64 their signs first, of which 100 a leg are looked at again."""
    pytest.importorskip("simsimd")
    monkeypatch.setattr(index_rows, "FLOAT_ROWS", 16)
    monkeypatch.setattr(local_index, "SIGN_ROWS", 64)
    monkeypatch.setattr(local_index, "SIGN_DEPTHS", 20)


def clusters(seed: int) -> "Vectors":
    """2,000 vectors, each much like 200 of them, in no order."""
    vectors = np.repeat(unit_rows(10, 64, seed), 200, axis=0) + 0.2 * unit_rows(2_000, 64, seed + 7)
    shuffled = np.random.default_rng(seed).permutation(vectors).astype(np.float32)
    return shuffled / np.linalg.norm(shuffled, axis=1, keepdims=True)


def write_index(folder: Path, vectors: "Vectors", *, hidden: Sequence[int] = ()) -> None:
    """Agents of seven tools each; every third is for the red only, and those of these numbers are for nobody."""
    folder.mkdir(exist_ok=True)
    numbers, path = numbers_of(vectors), path_of(folder, 1)
    owners, tools = np.divmod(np.arange(len(vectors)), TOOLS_OF_AGENT + 1)
    numbers["owner"] = owners + 1
    numbers["flags"] |= np.where(tools > 0, Flag.TOOL, np.where(np.isin(owners, hidden), Flag.IS_HIDDEN, 0)).astype(
        np.int32
    )
    ids = [f"a{owner:04}" + f"/t{tool}" * bool(tool) for owner, tool in zip(owners, tools, strict=True)]
    with closing(open_to_write(path) if path.exists() else create_file(path)) as file, file.at_once():
        numbers["check"] = file.put_vectors(dict(enumerate(vectors)))
        for first in range(0, len(ids), 256):
            some = slice(first, first + 256)
            block = Columns(ids[some], [""] * len(ids[some]), numbers[some])
            file.put("columns", [(first // 256, block.pack())])
        for row in np.flatnonzero(tools == 0).tolist():
            groups = ("red",) if owners[row] % 3 == 0 else ()
            agent = Agent(id=ids[row], name="", description="", visible_to=groups, hidden=int(owners[row]) in hidden)
            file.put("record", [(row, encode({"agent": record_of(agent), "claims": []}))])
        file.put_header(Header(state=state_of(64), rows=len(ids), owners=int(owners[-1]) + 1, buckets=1))


def found(index: LocalIndex, query: "Vectors", scope: Scope = Scope()) -> Iterator[tuple[list[int], list[float]]]:  # noqa: B008
    hits = index.search(LEGS, query, QueryText(), 5, scope).legs
    return ((hits[leg].rows.tolist(), hits[leg].scores.tolist()) for leg in LEGS)


@pytest.mark.usefixtures("small_looks")
def test_signs_find_the_best_among_those_who_may_be_found(tmp_path: Path) -> None:
    """As if every vector were compared, with the same scores."""
    vectors = clusters(3)
    write_index(tmp_path, vectors, hidden=range(0, 250, 2))
    scopes = [Scope(), Scope(principal=Principal(groups=("red",))), Scope(principal=Principal(groups=()))]
    with closing(LocalIndex.open(tmp_path)) as index, closing(LocalIndex.open(tmp_path, exact=True)) as exact:
        for query in vectors[::100]:
            for scope in scopes:
                by_signs = list(found(index, query, scope))
                assert by_signs == list(found(exact, query, scope))
                owners = {row // (TOOLS_OF_AGENT + 1) for rows, _ in by_signs for row in rows}
                assert all(owner % 2 for owner in owners)
                assert scope != scopes[2] or all(owner % 3 for owner in owners)
                assert [len(rows) for rows, _ in by_signs] == [5, 5]


@pytest.mark.usefixtures("small_looks")
def test_an_index_that_grows_finds_what_one_of_its_size_finds(tmp_path: Path) -> None:
    """From floats over codes to signs first, and on: of each revision as if it were opened anew."""
    vectors = clusters(5)
    write_index(tmp_path, vectors[:12])
    index = LocalIndex.open(tmp_path)
    for size in (12, 60, 300, 301, 1_999, 2_000):
        write_index(tmp_path, vectors[:size])
        index = index.follow()
        with closing(LocalIndex.open(tmp_path)) as fresh:
            for query in vectors[:size:37]:
                assert list(found(index, query)) == list(found(fresh, query))
    index.close()


@pytest.mark.usefixtures("small_looks")
def test_an_exact_search_compares_vectors_whose_signs_are_far(tmp_path: Path) -> None:
    """What the signs miss is found where the operator has every vector compared."""
    vectors = np.full((400, 64), 0.05, np.float32)
    vectors[:, 0] = 0.1
    vectors[77] *= -1
    vectors[77, 0] = 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = np.abs(vectors[77])
    place = tmp_path / "tools.grafeo"
    write_index(folder_of(place), vectors)
    best_tools = []
    for settings in (Settings(), Settings(exact_search=True)):
        store = EmbeddedStore(place, settings)
        (_, _), (tools, _) = found(store.index(), query)
        best_tools.append(tools[0])
        store.close()
    assert best_tools[0] != 77
    assert best_tools[1] == 77
