"""Embedders that other packages bring, by entry points of the group `waygraph.embedders`. See docs/embedders.md."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from waygraph.registry.contributions import blaming, brought
from waygraph.registry.embedding.protocol import Connected, Embedder, Progress, Role
from waygraph.registry.embedding.spec import GROUP, EmbedderSpec
from waygraph.registry.errors import EmbedderRefused
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix

type Opens = Callable[[EmbedderSpec, Settings, Mapping[str, str]], Embedder]
"""What an entry point is: the spec, the settings and the environment → an embedder."""

_OFF_LENGTH = 1e-3


def open_contributed(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> Embedder:
    """Raises EmbedderRefused for one that cannot be had, and what of our errors the package raises itself."""
    brings, called = brought(GROUP, spec.scheme, "embedder", EmbedderRefused)
    opens: Opens = brings
    with blaming(called, EmbedderRefused):
        inner = opens(spec, settings, environ)
        _check_names(inner, spec.scheme, called)
    if isinstance(inner, Connected):
        return _ConnectedAtArmsLength(inner, inner, called)
    return _AtArmsLength(inner, called)


def _check_names(embedder: Embedder, scheme: str, called: str) -> None:
    """Raises EmbedderRefused. Fingerprints are keys of caches, which embedders must not share."""
    fingerprint, dimension = embedder.fingerprint, embedder.dimension
    if not (fingerprint.startswith(f"{scheme}:") and fingerprint.isascii() and fingerprint.isprintable()):
        raise EmbedderRefused(f"{called}: expected a fingerprint in ASCII that begins with `{scheme}:`")
    if " " in fingerprint or type(dimension) is not int or dimension < 1:
        raise EmbedderRefused(f"{called}: expected a fingerprint without blanks and a dimension from 1")


class _AtArmsLength:
    """The same embedder, with EmbedderRefused in place of whatever else it raises, and its vectors looked at."""

    def __init__(self, inner: Embedder, called: str) -> None:
        self._inner, self._called = inner, called
        self.fingerprint, self.dimension = inner.fingerprint, inner.dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        with blaming(self._called, EmbedderRefused):
            matrix = np.asarray(self._inner.embed(texts, role, progress=progress), dtype=np.float32)
        shape = (len(texts), self.dimension)
        if matrix.shape != shape:
            raise EmbedderRefused(f"{self._called}: expected vectors of shape {shape}, found {matrix.shape}")
        lengths = np.linalg.norm(matrix, axis=1)
        if not np.all((np.abs(lengths - 1) < _OFF_LENGTH) | (lengths == 0)):
            raise EmbedderRefused(f"{self._called}: expected rows of length 1, or 0 for an empty text")
        return matrix


class _ConnectedAtArmsLength(_AtArmsLength):
    """One that holds connections."""

    def __init__(self, inner: Embedder, connected: Connected, called: str) -> None:
        super().__init__(inner, called)
        self._connected, self.place = connected, connected.place

    def close(self) -> None:
        with blaming(self._called, EmbedderRefused):
            self._connected.close()
