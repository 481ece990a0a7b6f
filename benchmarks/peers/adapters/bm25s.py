"""bm25s: BM25 over sparse matrices. Tools by words; the owner of the best comes first."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import READ_TOOLS, described_tools, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest


class Bm25sPeer:
    """`stemmed`: English stop words and the Snowball stemmer, as its README shows; else its defaults."""

    def __init__(self, vectors: Vectors, *, stemmed: bool = False, prefixed: bool = False) -> None:  # noqa: ARG002 - by words alone
        self._prefixed = prefixed
        self._bm25s: Any = import_module("bm25s")
        self._options: dict[str, Any] = {"show_progress": False}
        if stemmed:
            self._options |= {"stopwords": "en", "stemmer": import_module("Stemmer").Stemmer("english")}

    def ingest(self, catalogue: "Manifest") -> None:
        texts = described_tools(catalogue, prefixed=self._prefixed)
        if self._prefixed:
            texts = {tool: text.replace("_", " ") for tool, text in texts.items()}
        self._owners, self._ids = owners_of(catalogue), list(texts)
        self._index: Any = self._bm25s.BM25()
        self._index.index(self._bm25s.tokenize(list(texts.values()), **self._options), show_progress=False)

    def ask(self, text: str, limit: int) -> list[str]:
        tokens = self._bm25s.tokenize(text, **self._options)
        rows, scores = self._index.retrieve(tokens, k=min(READ_TOOLS, len(self._ids)), show_progress=False)
        found = [self._ids[row] for row, score in zip(rows[0], scores[0], strict=True) if score > 0]
        return distinct_owners(found, self._owners, limit)
