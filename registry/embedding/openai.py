"""Any endpoint that speaks OpenAI's POST /embeddings: OpenAI, Azure, vLLM, Ollama, llama.cpp, TEI …"""

import random
import time
from collections.abc import Callable, Sequence
from itertools import batched
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np

from waygraph.registry.embedding.backoff import wait_s
from waygraph.registry.embedding.protocol import Progress, Role
from waygraph.registry.embedding.rows import distinct, in_order, sound_text, unit_rows
from waygraph.registry.errors import EmbedderRefused, EmbedderUnavailable

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix

DEFAULT_BASE_URL = "https://api.openai.com/v1"
NATIVE_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
MAX_TEXT_CHARS = 8_000
"""OpenAI refuses a text of more than 8,191 tokens; one of 8,000 characters has fewer in nearly any script."""
TRANSIENT = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""A connection that broke, often an idle one. No connection at all, and no answer in time, are told at once."""


class OpenAIEmbedder:
    """Vectors from an endpoint. Safe across threads; `close` ends its connections.

    `dimension` is asked of the endpoint if it is given, else it is the model's own. `sleep` takes seconds,
    `jitter` gives a number in [0, 1).
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        model: str,
        dimension: int | None = None,
        timeout_s: float,
        batch_texts: int,
        retries: int,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._model, self._asked_dimension = model, dimension
        self._known_dimension = dimension or NATIVE_DIMENSIONS.get(model)
        self._api_key, self._batch_texts, self._retries, self._timeout_s = api_key, batch_texts, retries, timeout_s
        self._sleep, self._jitter = sleep, jitter
        self._url = _embeddings_url(base_url)
        self._client = httpx2.Client(headers=_authorization(api_key), timeout=timeout_s)
        self.fingerprint = f"openai:{model}@{self._known_dimension or 'native'}"

    @property
    def dimension(self) -> int:
        """Of a model that is not known, it is learned from a first answer."""
        if self._known_dimension is None:
            self._known_dimension = self._request(["dimension"]).shape[1]
        return self._known_dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":  # noqa: ARG002 - such models know no roles
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text).

        Raises EmbedderUnavailable (retryable) if the endpoint does not answer within `timeout_s` or stays
        overloaded, EmbedderRefused if it refuses or answers something else.
        """
        wanted = distinct(texts)
        vectors: dict[str, Any] = {}
        for some in batched(wanted, self._batch_texts):
            vectors.update(zip(some, self._request(some), strict=True))
            if progress:
                progress(len(vectors), len(wanted))
        return in_order(texts, vectors, self.dimension)

    def close(self) -> None:
        self._client.close()

    def _request(self, texts: Sequence[str]) -> "Matrix":
        """One vector a text, of length 1."""
        body: dict[str, object] = {
            "model": self._model,
            "input": [sound_text(text[:MAX_TEXT_CHARS]) for text in texts],
            "encoding_format": "float",
        }
        if self._asked_dimension:
            body["dimensions"] = self._asked_dimension
        return unit_rows(self._matrix(self._answer(body), len(texts)))

    def _answer(self, body: dict[str, object]) -> httpx2.Response:
        """The endpoint's good answer; asks again while it is overloaded."""
        for attempt in range(self._retries + 1):
            response = self._post(body)
            if response is not None and not _is_overload(response):
                return self._accepted(response)
            if attempt < self._retries:
                asked = response.headers.get("retry-after") if response is not None else None
                self._sleep(wait_s(attempt, asked, self._jitter))
        seen = f"answers {response.status_code}" if response is not None else "breaks the connection"
        raise EmbedderUnavailable(f"{self._host} still {seen} after {self._retries + 1} tries")

    def _post(self, body: dict[str, object]) -> httpx2.Response | None:
        """None if the connection broke."""
        try:
            return self._client.post(self._url, json=body)
        except TRANSIENT:
            return None
        except httpx2.TimeoutException as exc:
            raise EmbedderUnavailable(f"{self._host} did not answer within {self._timeout_s:g} s") from exc
        except (httpx2.TransportError, httpx2.InvalidURL) as exc:
            raise EmbedderUnavailable(f"{self._host} cannot be reached: {self._redacted(str(exc))}") from exc

    def _accepted(self, response: httpx2.Response) -> httpx2.Response:
        if response.status_code in {401, 403}:
            raise EmbedderRefused(
                f"{self._host} refuses the key ({response.status_code}); set OPENAI_API_KEY to one that may use "
                f"{self._model}"
            )
        if not response.is_success:
            told = self._redacted(response.text)[:300]
            raise EmbedderRefused(f"{self._host} refuses to embed ({response.status_code}): {told}")
        return response

    def _matrix(self, response: httpx2.Response, rows: int) -> "Matrix":
        """(rows, dimension) in the order of `index`, as given."""
        try:
            items = sorted(response.json()["data"], key=lambda item: int(item["index"]))
            indices = [int(item["index"]) for item in items]
            matrix = np.array([item["embedding"] for item in items], dtype=np.float32)
        except (ValueError, TypeError, KeyError) as exc:
            raise EmbedderRefused(f"{self._host} answered something that is no list of embeddings") from exc
        if indices != list(range(rows)) or matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise EmbedderRefused(f"{self._host} was asked for {rows} vectors and gave {len(items)}, not all sound")
        return self._of_known_dimension(matrix)

    def _of_known_dimension(self, matrix: "Matrix") -> "Matrix":
        if self._known_dimension is None:
            self._known_dimension = matrix.shape[1]
        if matrix.shape[1] != self._known_dimension:
            raise EmbedderRefused(
                f"{self._host} gave vectors of {matrix.shape[1]} numbers for {self._model}, "
                f"{self._known_dimension} were expected"
            )
        return matrix

    @property
    def _host(self) -> str:
        """For messages: an address may hold a password."""
        return self._url.host

    def _redacted(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text


def _authorization(api_key: str) -> dict[str, str]:
    if not api_key.isascii() or not api_key.isprintable():
        raise EmbedderRefused("OPENAI_API_KEY holds a line break or another character that no key has")
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def _embeddings_url(base_url: str) -> httpx2.URL:
    try:
        url = httpx2.URL(f"{base_url.rstrip('/')}/embeddings")
    except httpx2.InvalidURL:  # its message may quote a password
        raise EmbedderRefused("OPENAI_BASE_URL is not an address") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise EmbedderRefused("OPENAI_BASE_URL must be an address such as http://localhost:8000/v1")
    return url


def _is_overload(response: httpx2.Response) -> bool:
    return response.status_code == 429 or response.status_code >= 500
