"""From an embedder's name to the embedder, ours or another package's: each is opened once, with its caches."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from waygraph.registry.embedding.embedder import (
    GROUP,
    SHORT_NAMES,
    ConnectedEmbedder,
    Embedder,
    EmbedderSpec,
    Matrix,
    Progress,
    Role,
    embed_in_batches,
    full_spec,
    in_order,
    parse_spec,
    unit_rows,
)
from waygraph.registry.model.errors import EmbedderRefused, EmbedderUnavailable, MissingExtra, ModelNotFound
from waygraph.registry.model.identity import digest
from waygraph.registry.model.installation import install_command
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.plugins import blaming, find_plugin
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    import httpx2

    from waygraph.registry.embedding.cache import QueryCache
    from waygraph.registry.language_model.endpoint import Access


type Opens = Callable[[EmbedderSpec, Settings, Mapping[str, str]], Embedder]
"""What an entry point is: the spec, the settings and the environment → an embedder."""

_OFF_LENGTH = 1e-3


def open_contributed(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> Embedder:
    """Raises EmbedderRefused for one that cannot be had, and what of our errors the package raises itself."""
    brings, plugin_name = find_plugin(GROUP, spec.scheme, "embedder", EmbedderRefused)
    opens: Opens = brings
    with blaming(plugin_name, EmbedderRefused):
        inner = opens(spec, settings, environ)
        # Fingerprints are keys of caches, which embedders must not share.
        fingerprint, dimension = inner.fingerprint, inner.dimension
        if not (fingerprint.startswith(f"{spec.scheme}:") and fingerprint.isascii() and fingerprint.isprintable()):
            raise EmbedderRefused(f"{plugin_name}: expected a fingerprint in ASCII that begins with `{spec.scheme}:`")
        if " " in fingerprint or type(dimension) is not int or dimension < 1:
            raise EmbedderRefused(f"{plugin_name}: expected a fingerprint without blanks and a dimension from 1")
    return _AtArmsLength(inner, plugin_name)


class _AtArmsLength:
    """The same embedder, with EmbedderRefused in place of whatever else it raises, and its vectors looked at."""

    def __init__(self, inner: Embedder, plugin_name: str) -> None:
        self._inner, self._plugin_name = inner, plugin_name
        self.fingerprint, self.dimension = inner.fingerprint, inner.dimension
        if isinstance(inner, ConnectedEmbedder):  # then this one holds connections, too
            self.place, self.close = inner.place, blaming(plugin_name, EmbedderRefused)(inner.close)

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:
        import numpy as np

        with blaming(self._plugin_name, EmbedderRefused):
            matrix = np.asarray(self._inner.embed(texts, role, progress=progress), dtype=np.float32)
        shape = (len(texts), self.dimension)
        if matrix.shape != shape:
            raise EmbedderRefused(f"{self._plugin_name}: expected vectors of shape {shape}, found {matrix.shape}")
        lengths = np.linalg.norm(matrix, axis=1)
        if not np.all((np.abs(lengths - 1) < _OFF_LENGTH) | (lengths == 0)):
            raise EmbedderRefused(f"{self._plugin_name}: expected rows of length 1, or 0 for an empty text")
        return matrix


_TEXTS_A_ROUND = 64


class SentenceTransformersEmbedder:
    """Vectors of any local model that sentence-transformers runs, on torch; nothing is downloaded.

    Raises ModelNotFound if the package or the model is not on this machine.
    """

    def __init__(self, model: str) -> None:
        self._model = _load_model(model)
        self._lock = threading.Lock()  # its tokenizer refuses two threads at once
        self.dimension = int(self._model.get_embedding_dimension())
        self.fingerprint = f"sentence-transformers:{model}{_revision(self._model)}"

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text)."""
        vectors = embed_in_batches(texts, _TEXTS_A_ROUND, partial(self._encode, role=role), progress)
        return in_order(texts, vectors, self.dimension)

    def _encode(self, texts: Sequence[str], role: Role) -> Matrix:
        import numpy as np

        from waygraph.registry.embedding.weights import PROMPT_NAMES

        prompts = self._model.prompts or {}
        prompt = next((prompts[name] for name in PROMPT_NAMES[role] if prompts.get(name)), None)
        with self._lock:
            vectors = self._model.encode(list(texts), prompt=prompt, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
MOST_NUMBER = 1e15
"""Of a vector that is taken: of larger ones float32 cannot hold the squares."""
MAX_TEXT_CHARS = 8_000
"""OpenAI refuses a text of more than 8,191 tokens; one of 8,000 characters has fewer in nearly any script."""


class OpenAIEmbedder:
    """Vectors from any endpoint that speaks OpenAI's POST /embeddings: OpenAI, Azure, vLLM, Ollama, llama.cpp, TEI …

    Safe across threads; `close` ends its connections.
    `dimension` is asked of the endpoint if it is given, else it is the model's own.
    """

    def __init__(self, model: str, access: "Access", *, batch_texts: int, dimension: int | None = None) -> None:
        from waygraph.registry.language_model.endpoint import OpenAIEndpoint, Purpose

        self.place, self._model, self._asked_dimension = access.base_url, model, dimension
        self._known_dimension = dimension or NATIVE_DIMENSIONS.get(model)
        self._batch_texts = batch_texts
        embeddings = Purpose(path="embeddings", doing="embed", unavailable=EmbedderUnavailable, refused=EmbedderRefused)
        self._endpoint = OpenAIEndpoint(embeddings, access, model)
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

    def _matrix(self, response: "httpx2.Response", rows: int) -> Matrix:
        """(rows, dimension) in the order of `index`, as given."""
        import numpy as np

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


def _load_model(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as exc:
        raise ModelNotFound(
            f"sentence-transformers:{model} needs a package that is not installed: "
            + install_command("waygraph", "sentence-transformers")
        ) from exc
    try:
        return SentenceTransformer(model, local_files_only=True)
    except OSError as exc:
        raise ModelNotFound(f"{model} is not on this machine; `hf download {model}` gets it") from exc


def _revision(model: Any) -> str:
    """`@commit` of the files on the hub, where the model knows it."""
    commit = getattr(getattr(model[0], "auto_model", None), "config", None)
    commit = getattr(commit, "_commit_hash", None)
    return f"@{commit[:12]}" if commit else ""


def default_spec(settings: Settings) -> str:
    """The embedder of a new registry: waygraph-minilm, or all-MiniLM-L6-v2 where only its weights are here."""
    from waygraph.registry.embedding.weights import has_base_alone

    return SHORT_NAMES["minilm" if has_base_alone(settings) else "waygraph-minilm"]


def open_embedder(spec: str, settings: Settings, environ: Mapping[str, str]) -> Embedder | None:
    """The embedder that `spec` names; None for `none`: routing is lexical then.

    Raises EmbedderRefused for a spec that cannot be, ModelNotFound if the weights are not on this machine.
    Touches no network.
    """
    parts = parse_spec(spec)
    match parts.scheme:
        case "none":
            return None
        case "onnx":
            from waygraph.registry.embedding.weights import locate

            locate(spec, settings)  # first: a model that is not here is what to say, not what would run it
            try:
                from waygraph.registry.embedding.onnx import OnnxEmbedder

                return OnnxEmbedder.open(parts, settings)
            except ModuleNotFoundError as exc:
                missing = MissingExtra(f"{parts.scheme}:{parts.model}", package=str(exc.name), extra="models")
                raise ModelNotFound(str(missing)) from exc
        case "openai":
            from waygraph.registry.language_model.endpoint import Access

            columns, access = _dimension(parts), Access.of(settings, environ)
            return OpenAIEmbedder(parts.model, access, batch_texts=settings.openai_batch_texts, dimension=columns)
        case "sentence-transformers":
            return SentenceTransformersEmbedder(parts.model)
        case _:
            return open_contributed(parts, settings, environ)


def _dimension(spec: EmbedderSpec) -> int | None:
    """The number of columns wanted, None for what the model gives by itself."""
    if (dimension := spec.options.get("dimension")) is None:
        return None
    if (columns := read_digits(dimension, 1)) is None:
        raise EmbedderRefused(f"dimension={dimension[:40]!r} of openai:{spec.model} must be a whole number from 1")
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEmbedder:
    """An embedder (None: lexical only) and the spec by which it can be opened again."""

    embedder: Embedder | None
    spec: str

    @property
    def fingerprint(self) -> str:
        return self.embedder.fingerprint if self.embedder else ""


class OpenedEmbedders:
    """Opens specs, each once. Documents are cached on disk, queries in memory. Threads may share it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._opened: dict[str, Embedder | None] = {}
        self._documents: dict[str, Embedder] = {}
        self._queries: dict[str, QueryCache] = {}
        self._lock = threading.RLock()

    @property
    def vectors_advice(self) -> str:
        """What gives vectors to a registry that has none."""
        from waygraph.registry.embedding.weights import vectors_advice

        return vectors_advice(self._settings)

    def open(self, spec: str) -> ChosenEmbedder:
        """Raises EmbedderRefused, ModelNotFound."""
        spec = full_spec(spec)
        with self._lock:
            if spec not in self._opened:
                self._opened[spec] = open_embedder(spec, self._settings, self._environ)
            return ChosenEmbedder(embedder=self._opened[spec], spec=spec)

    def open_for_documents(self, spec: str) -> ChosenEmbedder:
        """The same, with the vectors of documents kept on disk. Raises EmbedderRefused, ModelNotFound."""
        spec = full_spec(spec)
        with self._lock:
            embedder = self.open(spec).embedder
            if embedder is not None and spec not in self._documents:
                from waygraph.registry.embedding.cache import CachedEmbedder, vector_file_path

                path = vector_file_path(self._settings, _maker_name(embedder))
                self._documents[spec] = CachedEmbedder(embedder, path)
            return ChosenEmbedder(embedder=self._documents.get(spec), spec=spec)

    def queries(self, embedder: Embedder) -> "QueryCache":
        """The vectors of queries, remembered across generations of the index."""
        from waygraph.registry.embedding.cache import QueryCache

        with self._lock:
            if embedder.fingerprint not in self._queries:
                self._queries[embedder.fingerprint] = QueryCache(embedder, self._settings.query_cache_entries)
            return self._queries[embedder.fingerprint]

    def close(self) -> None:
        """Ends the connections of its embedders: they are its own, nobody else's."""
        with self._lock, ExitStack() as closing:
            resources: list[object] = list(self._opened.values())
            for each in (self._opened, self._documents, self._queries):
                each.clear()
            for embedder in resources:
                if isinstance(embedder, ConnectedEmbedder):
                    closing.callback(embedder.close)


def _maker_name(embedder: Embedder) -> str:
    """What the vectors on disk are of: OpenAI's own have its name, those of other endpoints one for each endpoint."""
    if not isinstance(embedder, ConnectedEmbedder):
        return embedder.fingerprint
    from waygraph.registry.language_model.endpoint import DEFAULT_BASE_URL  # it imports an HTTP client

    if embedder.place == DEFAULT_BASE_URL:
        return embedder.fingerprint
    return f"{embedder.fingerprint}+{digest(embedder.place)[:12]}"
