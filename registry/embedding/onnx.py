"""The default embedder: a BERT model in onnxruntime, on one thread a text, without torch."""

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read once, at import; it would report models and processors

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from waygraph.registry.embedding.embedder import EmbedderSpec, Languages, Progress, Role, embed_in_batches, in_order
from waygraph.registry.embedding.weights import (
    GRAPH,
    TOKENIZER,
    WEIGHTS,
    BertShape,
    ModelCard,
    check_built,
    check_official,
    is_built,
    is_folder_name,
    locate,
    model_sha256,
    open_tokenizer,
    read_card,
    read_languages,
)
from waygraph.registry.model.errors import EmbedderRefused
from waygraph.registry.model.files import as_written, move_into_place
from waygraph.registry.model.process import EMBEDDING, has_stepped_back, processors, step_back
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.bert_graph import Precision
    from waygraph.registry.embedding.embedder import Matrix, Vector


CHARS_A_TOKEN = 128
"""Of a text, so many characters for each token that the model reads are looked at; more is cut unseen."""


class TextTokenizer:
    """Ids of one text with the model's special tokens, cut at `max_tokens`, not padded. Safe across threads."""

    def __init__(self, file: Path, max_tokens: int) -> None:
        """Raises EmbedderRefused for a file that is no tokenizer."""
        self._tokenizer = open_tokenizer(file)
        self._tokenizer.enable_truncation(max_tokens)
        self._max_chars = max_tokens * CHARS_A_TOKEN

    def ids(self, text: str) -> Sequence[int]:
        ids: list[int] = self._tokenizer.encode(text[: self._max_chars]).ids
        return ids


logger = logging.getLogger(__name__)

BUILDER_VERSION = 1
"""Grows when `write_bert_onnx` makes other vectors of the same weights."""


def build_key(sha256: str, shape: BertShape, precision: "Precision") -> str:
    return f"{sha256[:24]}-{shape.digest}-{precision}-v{BUILDER_VERSION}"


@contextmanager
def built_graph(weights: Path, shape: BertShape, precision: "Precision", target: Path) -> Iterator[Path]:
    """The graph's file, to be loaded inside the `with`; built if `target`, its folder in the cache, is not there.

    Several processes may build at once: the first to finish is kept. Where the cache cannot be written, the
    graph is built for this process only.
    """
    try:
        if not (target / GRAPH).is_file():
            _build_into_cache(weights, shape, precision, target)
    except OSError as exc:
        logger.warning("%s cannot be written (%s): the model is built anew in every process", target.parent, exc)
    else:
        yield target / GRAPH
        return
    with TemporaryDirectory() as folder:
        yield _build(weights, shape, precision, Path(folder))


def _build_into_cache(weights: Path, shape: BertShape, precision: "Precision", target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".building-", ignore_cleanup_errors=True) as folder:
        inner = Path(folder) / target.name
        inner.mkdir()
        _build(weights, shape, precision, inner)
        move_into_place(inner, target)


def _build(weights: Path, shape: BertShape, precision: "Precision", folder: Path) -> Path:
    from waygraph.registry.embedding.bert_graph import write_bert_onnx

    write_bert_onnx(weights / WEIGHTS, shape, precision, folder / GRAPH)
    return folder / GRAPH


PRECISIONS = ("int8", "float32")
UNLOADABLE = (
    *(ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.InvalidGraph, ort_errors.InvalidProtobuf),
    *(ort_errors.NoSuchFile, ort_errors.NotImplemented, ort_errors.RuntimeException),
)
MAX_THREADS = 4
TEXTS_A_ROUND = 64
"""Texts that are handed to the threads at once: progress is told, and an interrupt heard, after each round."""


class OnnxEmbedder:
    """Vectors of a BERT model. Every text runs alone, so its vector is the same in any company."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: "TextTokenizer",
        card: ModelCard,
        fingerprint: str,
        folder: Path,
    ) -> None:
        self._session, self._tokenizer, self._folder = session, tokenizer, folder
        self._prompts: Mapping[Role, str] = card.prompts
        self.dimension = card.shape.hidden
        self.fingerprint = fingerprint

    @classmethod
    def open(cls, spec: EmbedderSpec, settings: Settings) -> "OnnxEmbedder":
        """Raises ModelNotFound, or EmbedderRefused for weights or a precision that cannot be."""
        precision = _precision(spec)
        folder = locate(f"onnx:{spec.model}", settings)
        sha256 = model_sha256(folder, settings)
        if is_built(folder):
            check_built(folder, settings)
            card = read_card(folder)
            session = _built_session(folder, spec, precision)
            fingerprint = f"onnx:{spec.model}@{sha256[:12]}+{precision}"
        else:
            check_official(spec.model, sha256, folder)
            card = read_card(folder)
            session = _cached_session(folder, card, precision, settings, sha256)
            fingerprint = _fingerprint(spec.model, sha256, card, precision)
        return cls(session, TextTokenizer(folder / TOKENIZER, card.max_tokens), card, fingerprint, folder)

    @cached_property
    def languages(self) -> Languages:
        """Read when a text of another script than Latin comes: the vocabulary takes some 20 ms."""
        return read_languages(self._folder)

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text)."""
        if len(texts) == 1 and not progress:
            return self._one(texts[0], role)
        prompt = self._prompts[role]
        with _map_on_threads(len(texts)) as map_texts:
            embed = partial(map_texts, lambda text: self._vector(prompt + text))
            vectors = embed_in_batches(texts, TEXTS_A_ROUND, embed, progress)
        return in_order(texts, vectors, self.dimension)

    def _one(self, text: str, role: Role) -> "Matrix":
        """A query's way: what many texts need takes a twentieth of its time."""
        matrix = np.zeros((1, self.dimension), dtype=np.float32)
        if text and not text.isspace():
            matrix[0] = self._vector(self._prompts[role] + text)
        return matrix

    def _vector(self, text: str) -> "Vector":
        ids = np.array([self._tokenizer.ids(text)], dtype=np.int64)
        return cast("Vector", self._session.run(None, {"input_ids": ids})[0][0])


@contextmanager
def _map_on_threads(texts: int) -> Iterator[Callable[..., Iterable["Vector"]]]:
    """`map`, on as many threads as pay: a run holds no lock of Python. Those of a writer beside questions step back."""
    if (threads := min(processors(), MAX_THREADS, texts)) <= 1:
        yield map
        return
    from concurrent.futures import ThreadPoolExecutor

    behind = partial(step_back, EMBEDDING) if has_stepped_back() else None
    with ThreadPoolExecutor(threads, thread_name_prefix="embed", initializer=behind) as pool:
        yield pool.map


def _precision(spec: EmbedderSpec) -> "Precision":
    if (precision := spec.options.get("precision", "int8")) not in PRECISIONS:
        raise EmbedderRefused(f"precision {precision!r} is not known; known: {', '.join(PRECISIONS)}")
    return cast("Precision", precision)


def _fingerprint(model: str, sha256: str, card: ModelCard, precision: str) -> str:
    """A hub name stands for its configuration; a folder's may have been edited, so it is part of the print."""
    revision = "" if BUILDER_VERSION == 1 else f".{BUILDER_VERSION}"
    name, content = model, sha256[:12]
    if is_folder_name(model):
        name, content = as_written(model).resolve().name, f"{content}.{card.digest}"
    return f"onnx:{name}@{content}+{precision}{revision}"


def _built_session(folder: Path, spec: EmbedderSpec, precision: "Precision") -> onnxruntime.InferenceSession:
    """Loads the graph of a package as it is."""
    if precision != "int8":
        raise EmbedderRefused(
            f"{spec.model} comes in int8 only, its package holds no {precision} weights; leave `?precision=` out, or "
            f"name the folder that it was built of: onnx:/a/folder?precision={precision}"
        )
    try:
        return _session(folder / GRAPH)
    except UNLOADABLE as exc:
        raise EmbedderRefused(f"onnxruntime cannot load the graph of {folder}: {exc}") from exc


def _cached_session(
    folder: Path, card: ModelCard, precision: "Precision", settings: Settings, sha256: str
) -> onnxruntime.InferenceSession:
    """Loads the cached build, after building it if need be; a damaged one is built once more."""
    target = settings.cache_path / "models" / "built" / build_key(sha256, card.shape, precision)
    for _ in range(2):
        with built_graph(folder, card.shape, precision, target) as graph:
            try:
                return _session(graph)
            except UNLOADABLE as exc:
                failure = exc
        shutil.rmtree(target, ignore_errors=True)
    raise EmbedderRefused(f"onnxruntime cannot load the graph of {folder}: {failure}") from failure


def _session(graph: Path) -> onnxruntime.InferenceSession:
    """One thread: with more, a short query waits for a busy neighbour.

    Only basic optimization: the extended one makes SkipLayerNormalization of sums and norms, which is half as fast.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
