"""What an embedder is, and the string that names one.

onnx:waygraph-minilm                                   the default where its package is installed
onnx:sentence-transformers/all-MiniLM-L6-v2            int8, the default elsewhere
minilm                                                 short for that; so is waygraph-minilm for its own
multilingual                                           paraphrase-multilingual-MiniLM-L12-v2
onnx:/path/to/folder?precision=float32
openai:text-embedding-3-small?dimension=512
sentence-transformers:BAAI/bge-small-en-v1.5
none                                                   lexical routing only
acme:MODEL?any=option                                  an embedder that another package brings
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable
from urllib.parse import parse_qsl

from waygraph.registry.model.errors import EmbedderRefused, nearest
from waygraph.registry.model.settings import DEFAULT_EMBEDDER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

type Matrix = NDArray[np.float32]
type Vector = NDArray[np.float32]
Role = Literal["query", "document"]
Progress = Callable[[int, int], None]
"""Called with (texts done, texts in all)."""


class Embedder(Protocol):
    """Texts to vectors. One text always gives one vector, whatever is embedded beside it."""

    @property
    def fingerprint(self) -> str:
        """Model and content hash, such as `onnx:…/all-MiniLM-L6-v2@53aa5117+int8`; equal means equal vectors."""
        ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:
        """float32 of shape (len(texts), dimension); rows have length 1 (0 for an empty text).

        Raises EmbedderUnavailable (retryable) if an endpoint does not answer within its timeout,
        EmbedderRefused if it refuses.
        """
        ...


Languages = Literal["English", "multilingual"]


@runtime_checkable
class Literate(Protocol):
    """An embedder that says which languages its model knows."""

    @property
    def languages(self) -> Languages: ...


@runtime_checkable
class ConnectedEmbedder(Protocol):
    """An embedder that holds connections."""

    @property
    def place(self) -> str:
        """Whose vectors it gives: of one name, two places may have two models."""
        ...

    def close(self) -> None:
        """Ends them; it embeds nothing more."""
        ...


OPTIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "onnx": ("precision",),
    "openai": ("dimension",),
    "sentence-transformers": (),
}
"""Every scheme of ours and the options it takes."""
SHORT_NAMES: Mapping[str, str] = {
    "waygraph-minilm": "onnx:waygraph-minilm",
    "minilm": DEFAULT_EMBEDDER,
    "multilingual": "onnx:sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
}
"""One word → the spec that it stands for."""
INSTALL_MODEL = "Install the default model: `pip install waygraph-minilm`, or `./packages/waygraph-minilm` of a clone."
GROUP = "waygraph.embedders"
"""Entry points of other packages, each called as its scheme is; what options they take is theirs to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSpec:
    """`scheme:model?option=value`; `model` is empty for the scheme `none` only."""

    scheme: str
    model: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def full_spec(text: str) -> str:
    """The spec itself, with what a short name stands for: `minilm?precision=float32` has one."""
    name, mark, query = text.strip().partition("?")
    return f"{SHORT_NAMES.get(name, name)}{mark}{query}"


def parse_spec(text: str) -> EmbedderSpec:
    """Raises EmbedderRefused for an unknown scheme, a missing model or an unknown option."""
    name, _, query = full_spec(text).partition("?")
    scheme, _, model = name.partition(":")
    if scheme not in OPTIONS:
        from waygraph.registry.model.plugins import names  # a start with an embedder of ours needs nothing of it

        if scheme not in (plugin_names := names(GROUP)):
            raise EmbedderRefused(_unknown("embedder", scheme, (*OPTIONS, *SHORT_NAMES, *plugin_names)))
    if bool(model) == (scheme == "none"):
        raise EmbedderRefused(f"embedder {text!r}: write `none`, or `{scheme if model == '' else 'onnx'}:MODEL`")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if scheme in OPTIONS and name not in OPTIONS[scheme]:
            raise EmbedderRefused(_unknown(f"option of {scheme}:", name, OPTIONS[scheme]))
    return EmbedderSpec(scheme=scheme, model=model, options=options)


def _unknown(noun: str, name: str, names: tuple[str, ...]) -> str:
    near = nearest(name, names, least=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{noun} {name!r} is not known; known: {', '.join(names) or 'nothing'}.{hint}"


def shift_progress(progress: Progress | None, start: int, total: int) -> Progress | None:
    """Tells of a part as part of the whole."""
    return (lambda part_done, _: progress(start + part_done, total)) if progress else None


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts worth embedding, each once, in the order of their first coming."""
    return [text for text in dict.fromkeys(texts) if text and not text.isspace()]


def embed_in_batches(
    texts: Sequence[str], most: int, embed: Callable[[Sequence[str]], Iterable[Vector]], progress: Progress | None
) -> dict[str, Vector]:
    """Of each text worth embedding its vector, float32 of shape (dim,); `most` of them at a time."""
    distinct_texts, vectors = distinct(texts), dict[str, "Vector"]()
    for some in batched(distinct_texts, most):
        vectors.update(zip(some, embed(some), strict=True))
        if progress:
            progress(len(vectors), len(distinct_texts))
    return vectors


def in_order(texts: Sequence[str], vectors: Mapping[str, "NDArray[np.float32]"], dimension: int) -> Matrix:
    """float32 of shape (len(texts), dimension): each text's vector, zeros for one that has none."""
    import numpy as np

    matrix = np.zeros((len(texts), dimension), dtype=np.float32)
    for row, text in zip(matrix, texts, strict=True):
        if text in vectors:
            row[:] = vectors[text]
    return matrix


def unit_rows(matrix: Matrix) -> Matrix:
    """Scales every row to length 1; a row of zeros stays. float32 of shape (rows, dimension), as `matrix`."""
    import numpy as np

    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
