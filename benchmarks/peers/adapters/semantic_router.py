"""semantic-router: an agent is a route, its tools' texts are the route's utterances."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest


class SemanticRouterPeer:
    """`top_k` utterances are read and each route's are merged by `aggregation`; `tfidf` adds its sparse encoder."""

    def __init__(
        self,
        vectors: Vectors,
        *,
        top_k: int | None = None,
        aggregation: str | None = None,
        tfidf: bool = False,
        prefixed: bool = False,
    ) -> None:
        self._vectors, self._tfidf, self._prefixed = vectors, tfidf, prefixed
        given = {"top_k": top_k, "aggregation": aggregation}
        self._options = {name: value for name, value in given.items() if value is not None}

    def ingest(self, catalogue: "Manifest") -> None:
        routers: Any = import_module("semantic_router.routers")
        route: Any = import_module("semantic_router.route").Route
        routes = [route(name=name, utterances=list(texts)) for name, texts in self._utterances(catalogue).items()]
        if self._tfidf:
            self._options["sparse_encoder"] = import_module("semantic_router.encoders.tfidf").TfidfEncoder()
        self._router = routers.IndexedRouter(encoder=_encoder(self._vectors), routes=routes, **self._options)

    def ask(self, text: str, limit: int) -> list[str]:
        return [choice.name for choice in self._router(text, limit=limit) if choice.confidence]

    def _utterances(self, catalogue: "Manifest") -> dict[str, Sequence[str]]:
        return {
            entry.agent.id: [
                f"{tool.call_name if self._prefixed else tool.name}: {tool.description}" for tool in entry.tools
            ]
            for entry in catalogue.entries
        }


def _encoder(vectors: Vectors) -> Any:
    """Waygraph's embedder as an encoder that tells queries from documents."""
    base: Any = import_module("semantic_router.encoders.base")

    class Encoder(base.DenseEncoder, base.AsymmetricDenseMixin):  # type: ignore[misc]
        def encode_queries(self, docs: list[str]) -> list[Any]:
            return [vectors.of_query(text) for text in docs]

        def encode_documents(self, docs: list[str]) -> list[Any]:
            return list(vectors.of_documents(docs))

    return Encoder(name="waygraph")
