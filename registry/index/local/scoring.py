"""Scores: the exact scan of vectors, and BM25 over postings, whose impacts are computed when the index is written.

A search for words is the sum of a few short arrays. Files of a folder: the terms, a line each and sorted; where each
term's postings begin; of each posting its row and its impact.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waygraph.registry.index.analyser import SATURATION, kept_length, rarity, saturate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Vector

    Mask = NDArray[np.bool_]
    Ranking = tuple[NDArray[np.int64], NDArray[np.float32]]
    Shares = NDArray[np.float64]
    TermCounts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


_LINE = 64
"""Bytes of a processor's cache line."""
_GROUPS = 4
"""For each of the best that are wanted: more are longer looked through, fewer leave more scores to be sorted."""


def align_rows(rows: "Vector") -> "Vector":
    """A copy in memory of this process that begins at a cache line: float32 of the same shape (rows, dimension).

    Large pages hold it, which do not hold a mapped file. A scan takes three fifths of the time where a model has just
    pushed the rows out of the caches.
    """
    room = np.empty(rows.nbytes + _LINE, dtype=np.uint8)
    address: int = room.__array_interface__["data"][0]
    start = -address % _LINE
    copy: Vector = room[start : start + rows.nbytes].view(rows.dtype).reshape(rows.shape)
    copy[...] = rows
    return copy


def cosines(rows: "Vector", vector: "Vector") -> "Vector":
    """Cosines of unit rows with a unit vector: float32 of shape (rows,), in [-1, 1] or -inf.

    `rows` is float32 of shape (rows, dimension), `vector` of shape (dimension,). Where either is all zeros it has no
    direction, and the cosine is -inf.
    """
    # vecdot, not @: one thread, and a row's score never depends on the rows beside it.
    scores: Vector = np.vecdot(rows, vector)
    if not scores.all():
        suspects = np.flatnonzero(scores == 0)
        blank = ~rows[suspects].any(axis=1) if vector.any() else slice(None)
        scores[suspects[blank]] = -np.inf
    return scores


def best(scores: "Vector", depth: int) -> "NDArray[np.int64]":
    """Positions of the `depth` highest finite scores, best first, equal ones by position: int64 of shape (≤ depth,).

    `scores` is float32 of shape (rows,).
    """
    floor = _floor(scores, depth)
    positions = (scores >= floor if floor > -np.inf else scores > -np.inf).nonzero()[0]
    # Positions ascend, and a stable sort keeps them so among equal scores.
    order = (-scores[positions]).argsort(kind="stable")[:depth]
    return positions[order]


def _floor(scores: "Vector", depth: int) -> float:
    """A little below the `depth`-th highest score, or that itself; never above it.

    The `depth`-th highest of the maxima of some groups: each maximum is a score. They are had in a third of the time.
    """
    if len(scores) <= depth:
        return -np.inf
    deep = max(1, len(scores) // (_GROUPS * depth))
    groups = len(scores) // deep
    maxima = scores[: deep * groups].reshape(deep, groups).max(axis=0)
    return float(np.partition(maxima, groups - depth)[groups - depth])


class VisibleTexts(NamedTuple):
    """The texts that somebody may find at all. Nobody learns from scores, or the time that they take, which words stand
    in the others: such a word is one that stands nowhere.

    `texts`: how many of them are of the postings; `having`: in how many of them each term stands, and 0 for words that
    are no term, int64 of shape (terms + 1,).
    """

    texts: int
    having: "NDArray[np.int64]"


TERMS, STARTS, ROWS, IMPACTS = FILES = ("terms.txt", "starts.npy", "rows.npy", "impacts.npy")
_WORDS_KEPT = 16_384


class Postings:
    """Searches what `write_postings` wrote. Threads may share it. Raises OSError, ValueError for damage."""

    def __init__(self, folder: Path, *, rows: int, texts: int) -> None:
        """`rows`: how many the whole index has; `texts`: how many were written."""
        terms = (folder / TERMS).read_text(encoding="utf-8").splitlines()
        starts = _map_file(folder / STARTS, np.int64)
        self._rows, self._impacts = _map_file(folder / ROWS, np.int32), _map_file(folder / IMPACTS, np.float32)
        _refuse_damage(len(terms), starts, self._rows, self._impacts, rows)
        self._starts: list[int] = starts.tolist()
        self._places = {term: place for place, term in enumerate(terms)}
        self._nowhere = len(terms)
        self._size = rows
        # Of a bound method it would be a circle, and the files stay mapped until somebody looks for those.
        self._rarity = lru_cache(maxsize=_WORDS_KEPT)(partial(_rarity_at, self._starts, texts))

    def count_visible(self, rows: "Mask", texts: int) -> VisibleTexts:
        """`rows`: bool of shape (rows of the index,), those that may be found, of which `texts` are of these postings.

        Looks at every posting, so it is kept for who asks again.
        """
        having = np.zeros(self._nowhere + 1, dtype=np.int64)
        if self._nowhere:
            having[:-1] = np.add.reduceat(rows[self._rows], self._starts[:-1], dtype=np.int64)
        return VisibleTexts(texts, having)

    def search(
        self, words: Sequence[str], depth: int, mask: "Mask | None", visible: "VisibleTexts | None" = None
    ) -> "Ranking":
        """Rows (int64) and scores (float32), each of shape (≤ depth,), best first, equal scores by row.

        `mask`, bool of shape (rows of the index,), says which rows may be found; None: all. Words are as rare as they
        are among the texts `visible`; None: among all.
        """
        places = [self._places.get(word, self._nowhere) for word in words]
        known_places = [
            place for place in places if (place < self._nowhere if visible is None else visible.having[place])
        ]
        if not known_places:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        spans = [self._span(place) for place in known_places]
        impacts = [self._impacts[span] for span in spans]
        if visible is not None:
            impacts = [
                impact * (rarity(int(visible.having[place]), visible.texts) / self._rarity(place))
                for impact, place in zip(impacts, known_places, strict=True)
            ]
        rows = np.concatenate([self._rows[span] for span in spans])
        scores = np.bincount(rows, np.concatenate(impacts), self._size)
        if mask is not None:
            scores[~mask] = 0
        hits = np.flatnonzero(scores > 0)
        top_scores = scores[hits].astype(np.float32)
        top = best(top_scores, depth)
        return hits[top], top_scores[top]

    def _span(self, place: int) -> slice:
        return slice(self._starts[place], self._starts[place + 1])

    def best_possible(self, words: Sequence[str], visible: "VisibleTexts | None" = None) -> float:
        """The BM25 score of a text that holds every word often; unknown words are the rarest. `visible` as above."""
        places = [self._places.get(word, self._nowhere) for word in words]
        if visible is None:
            return SATURATION * sum(map(self._rarity, places))
        return SATURATION * sum(rarity(int(visible.having[place]), visible.texts) for place in places)


def _rarity_at(starts: Sequence[int], texts: int, place: int) -> float:
    """Of the term at this place, as `STARTS` has them; behind the last one is what stands nowhere."""
    return rarity(starts[place + 1] - starts[place] if place + 1 < len(starts) else 0, texts)


def _map_file(file: Path, kind: type) -> "NDArray[Any]":
    """Not as np.memmap, whose slices take ten times as long."""
    array = np.asarray(np.load(file, mmap_mode="r"))
    if array.dtype != kind:
        raise ValueError(f"{file.name} holds other numbers")
    return array


def _refuse_damage(
    terms: int, starts: "NDArray[Any]", rows: "NDArray[Any]", impacts: "NDArray[Any]", size: int
) -> None:
    """A row that is none, or a score that is no number, would do harm far from here. Raises ValueError."""
    bounds = len(starts) == terms + 1 and starts[0] == 0 and starts[-1] == len(rows) == len(impacts)
    if not bounds or (np.diff(starts) < 1).any():
        raise ValueError("its postings are not those of its terms")
    if len(rows) and not (rows.min() >= 0 and rows.max() < size and impacts.min() > 0 and impacts.max() < np.inf):
        raise ValueError("its postings are of no rows, or of no scores")


def write_postings(folder: Path, texts: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Of texts by row, rows ascending: the terms of each, repeats kept. Raises OSError."""
    term_lists = [terms for _, terms in texts]
    vocabulary: set[str] = set()
    # Text by text, here and below: one call over all of them would hold up who asks meanwhile.
    for each in term_lists:
        vocabulary.update(each)
    terms = sorted(vocabulary)
    of_terms, of_texts, counts = _count_terms(term_lists, terms)
    having = np.bincount(of_terms, minlength=len(terms))
    folder.mkdir()
    (folder / TERMS).write_text("\n".join(terms), encoding="utf-8")
    np.save(folder / STARTS, np.concatenate([[0], np.cumsum(having)]).astype(np.int64))
    np.save(folder / ROWS, np.asarray([row for row, _ in texts], dtype=np.int32)[of_texts])
    rarities = np.asarray([rarity(count, len(texts)) for count in having.tolist()])
    np.save(folder / IMPACTS, (_shares(term_lists, of_texts, counts) * rarities[of_terms]).astype(np.float32))


def _count_terms(term_lists: Sequence[Sequence[str]], terms: Sequence[str]) -> "TermCounts":
    """Of each posting its term's place, its text's, and how often it stands there; by terms, then by texts."""
    places = dict(zip(terms, range(len(terms)), strict=True))
    size = max(len(term_lists), 1)
    standing = [
        np.fromiter(map(places.__getitem__, words), np.int64, len(words)) * size + text
        for text, words in enumerate(term_lists)
    ]
    keys, counts = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *standing]), return_counts=True)
    return *np.divmod(keys, size), counts


def _shares(
    term_lists: Sequence[Sequence[str]], of_texts: "NDArray[np.int64]", counts: "NDArray[np.int64]"
) -> "Shares":
    lengths = [len(words) for words in term_lists]
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    return saturate(counts, np.asarray([kept_length(length) for length in lengths], dtype=np.int64)[of_texts], mean)
