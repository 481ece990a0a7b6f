"""Any endpoint that speaks OpenAI's POST /embeddings: OpenAI, Azure, vLLM, Ollama, llama.cpp, TEI …"""

import math
from collections.abc import Sequence
from functools import partial

import httpx2
import numpy as np

from waygraph.registry.embedding.embedder import Matrix, Progress, Role, embed_in_batches, in_order, unit_rows
from waygraph.registry.language_model.endpoint import Access, OpenAIEndpoint, Purpose
from waygraph.registry.model.errors import EmbedderRefused, EmbedderUnavailable

EMBEDDINGS = Purpose(path="embeddings", doing="embed", unavailable=EmbedderUnavailable, refused=EmbedderRefused)
NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
MOST_NUMBER = 1e15
"""Of a vector that is taken: of larger ones float32 cannot hold the squares."""
MAX_TEXT_CHARS = 8_000
"""OpenAI refuses a text of more than 8,191 tokens; one of 8,000 characters has fewer in nearly any script."""


class OpenAIEmbedder:
    """Vectors from an endpoint. Safe across threads; `close` ends its connections.

    `dimension` is asked of the endpoint if it is given, else it is the model's own.
    """

    def __init__(self, model: str, access: Access, *, batch_texts: int, dimension: int | None = None) -> None:
        self.place, self._model, self._asked_dimension = access.base_url, model, dimension
        self._known_dimension = dimension or NATIVE_DIMENSIONS.get(model)
        self._batch_texts = batch_texts
        self._endpoint = OpenAIEndpoint(EMBEDDINGS, access, model)
        self.fingerprint = f"openai:{model}@{self._known_dimension or 'native'}"

    @property
    def dimension(self) -> int:
        """Of a model that is not known, it is learned from a first answer."""
        if self._known_dimension is None:
            self._known_dimension = self._request(["dimension"]).shape[1]
        return self._known_dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text). For a query somebody
        waits; other than that such models know no roles.

        Raises EmbedderUnavailable (retryable) if the endpoint does not answer within `timeout_s` or stays
        overloaded, EmbedderRefused if it refuses or answers something else.
        """
        embed = partial(self._request, is_urgent=role == "query")
        vectors = embed_in_batches(texts, self._batch_texts, embed, progress)
        return in_order(texts, vectors, self.dimension)

    def close(self) -> None:
        self._endpoint.close()

    def _request(self, texts: Sequence[str], *, is_urgent: bool = False) -> Matrix:
        """One vector a text, of length 1."""
        beginnings = [text[:MAX_TEXT_CHARS] for text in texts]
        body: dict[str, object] = {"model": self._model, "input": beginnings, "encoding_format": "float"}
        if self._asked_dimension:
            body["dimensions"] = self._asked_dimension
        ends_at = self._endpoint.ends_at() if is_urgent else math.inf
        return unit_rows(self._matrix(self._endpoint.post(body, ends_at=ends_at), len(texts)))

    def _matrix(self, response: httpx2.Response, rows: int) -> Matrix:
        """(rows, dimension) in the order of `index`, as given."""
        try:
            items = sorted(response.json()["data"], key=lambda item: int(item["index"]))
            indices = [int(item["index"]) for item in items]
            matrix = np.array([item["embedding"] for item in items])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as exc:
            raise self._endpoint.refusal("answered something that is no list of embeddings") from exc
        is_whole = indices == list(range(rows)) and matrix.ndim == 2 and matrix.size and matrix.dtype.kind in "iuf"
        if not is_whole or not (np.abs(matrix.astype(np.float64)) <= MOST_NUMBER).all():  # NaN is not, either
            raise self._endpoint.refusal(f"was asked for {rows} vectors and gave {len(items)}, not all sound")
        if self._known_dimension is None:
            self._known_dimension = matrix.shape[1]
        if matrix.shape[1] != self._known_dimension:
            raise self._endpoint.refusal(
                f"gave vectors of {matrix.shape[1]} numbers for {self._model}, {self._known_dimension} were expected. "
                "If another model has its name now, start this process again and run `waygraph reindex`."
            )
        return matrix.astype(np.float32)
