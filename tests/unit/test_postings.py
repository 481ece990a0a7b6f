"""Postings against BM25 as it is written in the books, text by text, and what becomes of damaged ones."""

from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.index.analyser import kept_length
from waygraph.registry.index.local.scoring import IMPACTS, ROWS, STARTS, TERMS, Postings, write_postings

WORDS = ["harbour", "pilot", "tide", "chart", "港", "é", "x1"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=60), max_size=12)
GAP = 3
"""Between the rows of two texts: not every row has one."""


def expected(texts: Sequence[Sequence[str]], words: Sequence[str]) -> dict[int, float]:
    """Row → score, by Robertson and Zaragoza's formula with k1 = 1.2 and b = 0.75."""
    mean = sum(map(len, texts)) / len(texts) if texts else 0
    scores: dict[int, float] = {}
    for at, text in enumerate(texts):
        for word in words:
            having, often = sum(word in other for other in texts), text.count(word)
            if often:
                idf = log(1 + (len(texts) - having + 0.5) / (having + 0.5))
                norm = 1.2 * (0.25 + 0.75 * kept_length(len(text)) / mean)
                scores[at * GAP] = scores.get(at * GAP, 0.0) + idf * 2.2 * often / (often + norm)
    return scores


def postings(folder: Path, texts: Sequence[Sequence[str]]) -> Postings:
    write_postings(folder / "t", [(at * GAP, text) for at, text in enumerate(texts)])
    return Postings(folder / "t", rows=len(texts) * GAP, texts=len(texts))


@given(TEXTS, st.lists(st.sampled_from([*WORDS, "unknown"]), unique=True), st.integers(1, 15), st.randoms())
def test_a_search_is_the_formula(texts: list[list[str]], words: list[str], depth: int, chance: Random) -> None:
    """The same rows with the same scores, best first and equal ones by row; with a mask, those of the rest."""
    mask = np.asarray([chance.random() < 0.7 for _ in range(len(texts) * GAP)], dtype=np.bool_)
    with TemporaryDirectory() as folder:
        held = postings(Path(folder), texts)
        for allowed in (None, mask):
            rows, scores = held.search(words, depth, allowed)
            wanted = {row: s for row, s in expected(texts, words).items() if allowed is None or allowed[row]}
            assert len(rows) == min(depth, len(wanted))
            assert scores.tolist() == pytest.approx([wanted[row] for row in rows.tolist()], rel=1e-5)
            assert rows.tolist() == [row for _, row in sorted(zip((-scores).tolist(), rows.tolist(), strict=True))]
            left = max((s for row, s in wanted.items() if row not in rows), default=0.0)
            assert not len(rows) or left <= scores[-1] * (1 + 1e-5)


def save(name: str, array: np.ndarray) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / name, array)


@pytest.mark.parametrize(
    "harm",
    [
        save(ROWS, np.array([0, 3, 2**31 - 1], dtype=np.int32)),
        save(ROWS, np.array([0, 3, -1], dtype=np.int32)),
        save(ROWS, np.array([0, 3, 3], dtype=np.int64)),
        save(ROWS, np.array([0, 3], dtype=np.int32)),
        save(IMPACTS, np.array([1, 1, np.nan], dtype=np.float32)),
        save(IMPACTS, np.array([1, 1, np.inf], dtype=np.float32)),
        save(IMPACTS, np.array([1, 1, -1], dtype=np.float32)),
        save(STARTS, np.array([0, 3, 1, 3], dtype=np.int64)),
        save(STARTS, np.array([0, 1, 2], dtype=np.int64)),
        save(STARTS, np.array([], dtype=np.int64)),
        lambda folder: (folder / TERMS).write_bytes(b"tide\nchart"),
        lambda folder: (folder / TERMS).write_bytes(b"\xff"),
    ],
)
def test_damage_is_refused(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    postings(tmp_path, [["tide", "chart"], ["pilot"]])
    harm(tmp_path / "t")
    with pytest.raises(ValueError, match=r".+"):
        Postings(tmp_path / "t", rows=4, texts=2)
