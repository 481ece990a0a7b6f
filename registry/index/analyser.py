"""Text to terms, the same way for every engine: identifiers split, words stemmed, CJK as bigrams.

Queries become term queries, never parsed query syntax, so that any Unicode text is a valid query.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word of camelCase begins."""
_CJK = "\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII_PIECE = re.compile(r"[^\W_]+")
_SEPARATORS = re.compile(r"[\s_\-./:]+")
_QUOTATION = re.compile(r"[\"'`“”‘’«»「」]([^\"'`“”‘’«»「」]{1,160})[\"'`“”‘’«»「」]")
_IDENTIFIER = re.compile(r"[^\s\"'`,;!?()\[\]{}“”‘’«»]+")
LOOKS_CODED = re.compile(r"\w[_\-/]\w|[a-z0-9][A-Z]")
_MAX_TERM_CHARS = 64
AROUND_NAMES = " \t\r\n\"'`.,;!?"
"""What may stand around a name that is a whole query."""
MAX_NAMED_CHARS = 300
"""Of what may be a name: longer than any id, and short enough to be compared by its letters."""
_QUERIES_KEPT = 1_024

STOP_WORDS = frozenset(
    """a about all also am an and any are as at be been but by can could did do does for from had has have he her
    him his how i if in into is it its just let like may me might my need no not of on or our out please she should
    so some than that the their them then there these they this those to too up us very want was we were what when
    where which who whom why will with would you your""".split()
)
"""Left out of queries only: in a small catalogue `the` would else be a rare and telling word."""


MOST_WORDS = 300
"""Of a query: each is looked up and counted in every text leg."""


def terms(text: str) -> list[str]:
    """Every term of a text, in order, repeats kept; each without white space."""
    words: list[str] = []
    for piece, is_cjk in _pieces(text):
        if is_cjk:
            words += _bigrams(piece)
        elif piece.isascii() and piece.islower():  # so are most words
            words.append(_stem(piece[:_MAX_TERM_CHARS]))
        else:
            words += [_stem(part.casefold()[:_MAX_TERM_CHARS]) for part in CAMEL.split(piece)]
    return words


def query_terms(text: str, before: str = "") -> tuple[str, ...]:
    """The first `MOST_WORDS` distinct telling terms of a query, in order; none if it holds only stop words.

    Behind them those of what was said `before` it, which no cache keeps: it is one caller's own.
    """
    words = _terms_of_query(text)
    return tuple(dict.fromkeys((*words, *_telling_terms(before))) if before else words)[:MOST_WORDS]


def unread_notice(text: str) -> str:
    """That a query has more terms than are read; empty if it has not."""
    count = len(_terms_of_query(text))
    return (
        f"Only the first {MOST_WORDS} of its {count:,} different words are searched for." if count > MOST_WORDS else ""
    )


@lru_cache(maxsize=_QUERIES_KEPT)
def _terms_of_query(text: str) -> tuple[str, ...]:
    return _telling_terms(text)


def _telling_terms(text: str) -> tuple[str, ...]:
    pieces = [piece for piece, _ in _pieces(text) if piece.casefold() not in STOP_WORDS]
    return tuple(dict.fromkeys(terms(" ".join(pieces))))


def telling_words(text: str) -> Iterator[tuple[str, str]]:
    """The term and the word itself, of each word of the text that says something; repeats kept."""
    for piece, is_cjk in _pieces(text):
        for word in _bigrams(piece) if is_cjk else CAMEL.split(piece):
            term = word.casefold()[:_MAX_TERM_CHARS]
            if term not in STOP_WORDS and (is_cjk or len(term) > 2) and not term.isdigit():
                yield term if is_cjk else _stem(term), term


def fold(name: str) -> str:
    """A name without case and separators: `Harbor Git`, `harbor-git` and `harborGit` are one."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", name).casefold())


def fold_path(agent: str, tool: str) -> str:
    """The folded form of `agent/tool`."""
    return f"{fold(agent)}/{fold(tool)}"


@lru_cache(maxsize=_QUERIES_KEPT)
def names_in(text: str) -> tuple[str, ...]:
    """The first folded names that a query may mean: itself, and what it holds in quotes or written like an identifier.

    A plain word inside a sentence is not among them, so that a tool called `search` is not meant by every search.
    """
    bare_text = text.strip(AROUND_NAMES)
    candidates = [bare_text] if len(bare_text) <= MAX_NAMED_CHARS else []
    candidates += _QUOTATION.findall(text)
    if LOOKS_CODED.search(text):
        candidates += [word.strip(".:") for word in _IDENTIFIER.findall(text) if LOOKS_CODED.search(word)]
    forms = [form for name in candidates if len(name) <= MAX_NAMED_CHARS for form in _forms(name)]
    return tuple(dict.fromkeys(form for form in forms if form))[:MOST_WORDS]


def _pieces(text: str) -> list[tuple[str, bool]]:
    """What stands between spaces and marks, in order, and whether it is CJK, which begins a piece of its own."""
    if text.isascii():
        return [(piece, False) for piece in _ASCII_PIECE.findall(text)]
    either, cjk = _unicode_patterns()
    return [(piece, cjk.match(piece) is not None) for piece in either.findall(unicodedata.normalize("NFKC", text))]


@cache
def _unicode_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A piece, and one that is CJK. Made when they are needed: to compile them takes longer than a search."""
    return re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+"), re.compile(rf"[{_CJK}]")


def _forms(name: str) -> list[str]:
    agent, slash, tool = name.partition("/")
    return [fold(name), fold_path(agent, tool)] if slash else [fold(name)]


def _bigrams(run: str) -> list[str]:
    return ["".join(pair) for pair in pairwise(run)] if len(run) > 1 else [run]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    if not word.isascii():
        return word
    stem: str = _stemmer().stemWord(word)
    return stem


@cache
def _stemmer() -> Any:
    from Stemmer import Stemmer

    return Stemmer("english", 0)  # without a cache of its own


# BM25 as every index has it: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), k1 = 1.2 and
# b = 0.75, as Lucene writes it, which Neo4j asks.


_K1, _B = 1.2, 0.75
SATURATION = _K1 + 1
"""The most that one term adds, times its rarity. Lucene leaves this factor out."""
_EXACT_UP_TO, _KEPT_BITS = 24, 4


def rarity(having: int, total: int) -> float:
    """The idf of a term that `having` of `total` texts hold."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def saturate(counts: "NDArray[np.int64]", lengths: "NDArray[np.int64]", mean_length: float) -> "NDArray[np.float64]":
    """What a term adds to each text's score, as a share of its rarity: float64 of shape (texts,), in (0, SATURATION).

    `counts`: how often a text holds the term, `lengths`: how many terms the text has. Both int64 of shape (texts,).
    """
    return SATURATION * counts / (counts + _K1 * (1 - _B + _B * lengths / mean_length))


def kept_lengths(lengths: "NDArray[np.int32]") -> "NDArray[np.int64]":
    """Lengths of texts, in terms, as Lucene keeps them in a byte: what is above 24 by its four highest bits. So all
    score alike.
    """
    import numpy as np

    above = np.maximum(lengths.astype(np.int64) - _EXACT_UP_TO, 0)
    cut_bits = np.maximum(np.frexp(above)[1] - _KEPT_BITS, 0)
    rounded_lengths: NDArray[np.int64] = lengths - above + (above >> cut_bits << cut_bits)
    return rounded_lengths
