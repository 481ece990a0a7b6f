"""From an embedder's name to the embedder, ours or another package's: each is opened once, with its caches."""

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
)
from waygraph.registry.model.errors import EmbedderRefused, MissingExtra, ModelNotFound
from waygraph.registry.model.identity import digest
from waygraph.registry.model.installation import install_command
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.plugins import blaming, find_plugin
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.cache import QueryCache


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
    if isinstance(inner, ConnectedEmbedder):
        return _ConnectedAtArmsLength(inner, inner, plugin_name)
    return _AtArmsLength(inner, plugin_name)


class _AtArmsLength:
    """The same embedder, with EmbedderRefused in place of whatever else it raises, and its vectors looked at."""

    def __init__(self, inner: Embedder, plugin_name: str) -> None:
        self._inner, self._plugin_name = inner, plugin_name
        self.fingerprint, self.dimension = inner.fingerprint, inner.dimension

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


class _ConnectedAtArmsLength(_AtArmsLength):
    """One that holds connections."""

    def __init__(self, inner: Embedder, connection: ConnectedEmbedder, plugin_name: str) -> None:
        super().__init__(inner, plugin_name)
        self._connected, self.place = connection, connection.place

    def close(self) -> None:
        with blaming(self._plugin_name, EmbedderRefused):
            self._connected.close()


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
            from waygraph.registry.embedding.openai import OpenAIEmbedder
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
