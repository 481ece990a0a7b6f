"""langgraph-bigtool: its default retrieval tool over LangGraph's in-memory store, texts as in its README."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.peer import described_tools, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest

NAMESPACE = ("tools",)


class BigtoolPeer:
    """`limit`: how many tools its retrieval gives; its own default is 2."""

    def __init__(self, vectors: Vectors, *, limit: int | None = None, prefixed: bool = False) -> None:
        self._vectors, self._prefixed = vectors, prefixed
        make: Any = import_module("langgraph_bigtool.tools").get_default_retrieval_tool
        self._retrieve, _ = make(NAMESPACE) if limit is None else make(NAMESPACE, limit=limit)

    def ingest(self, catalogue: "Manifest") -> None:
        memory: Any = import_module("langgraph.store.memory")
        put: Any = import_module("langgraph.store.base").PutOp
        index = {"embed": _embeddings(self._vectors), "dims": 384, "fields": ["description"]}
        self._owners, self._store = owners_of(catalogue), memory.InMemoryStore(index=index)
        texts = described_tools(catalogue, prefixed=self._prefixed)
        self._store.batch([put(NAMESPACE, tool, {"description": text}) for tool, text in texts.items()])

    def ask(self, text: str, limit: int) -> list[str]:
        return distinct_owners(self._retrieve(text, store=self._store), self._owners, limit)


def _embeddings(vectors: Vectors) -> Any:
    """Waygraph's embedder as LangChain's."""
    base: Any = import_module("langchain_core.embeddings").Embeddings

    class Embeddings(base):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            rows: list[list[float]] = vectors.of_documents(texts).tolist()
            return rows

        def embed_query(self, text: str) -> list[float]:
            row: list[float] = vectors.of_query(text).tolist()
            return row

    return Embeddings()
