"""An embedder and a reranker as another package would bring them: counted letters, and the longest text first."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from waygraph.registry.embedding import Progress, Role
from waygraph.registry.embedding.embedder import EmbedderSpec
from waygraph.registry.model.settings import Settings

DIMENSION = 32


class Letters:
    """How often each letter is there, by its code modulo the dimension."""

    dimension = DIMENSION

    def __init__(self, model: str) -> None:
        self.fingerprint = f"acme:{model}@1"

    def embed(self, texts: Sequence[str], _role: Role, *, progress: Progress | None = None) -> np.ndarray:
        matrix = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            codes = np.frombuffer(text.lower().encode("utf-8", "replace"), dtype=np.uint8)
            counts = np.bincount(codes[codes > ord(" ")] % DIMENSION, minlength=DIMENSION)
            matrix[row] = counts / (np.linalg.norm(counts) or 1)
            if progress:
                progress(row + 1, len(texts))
        return matrix


def opened(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> Letters:
    return Letters(spec.model)


def shouting(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> Letters:
    raise RuntimeError(environ["ACME_KEY"])


class _Wrong(Letters):
    def __init__(self, model: str, fault: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(model)
        self.fingerprint, self._fault = f"faulty:{model}@1", fault

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> np.ndarray:
        return self._fault(super().embed(texts, role, progress=progress))


def faulty(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> Letters:
    faults: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "long": lambda matrix: matrix * 2,
        "endless": lambda matrix: matrix * np.nan,
        "narrow": lambda matrix: matrix[:, 1:],
        "few": lambda matrix: matrix[1:],
        "none": lambda matrix: matrix[len(matrix)],
    }
    return _Wrong(spec.model, faults[spec.model])


class Longest:
    closed = 0

    def __init__(self, model: str) -> None:
        self._model = model

    def order(self, query: str, documents: Sequence[str]) -> Sequence[int]:
        if self._model == "twice":
            return [0] * len(documents)
        if self._model == "never":
            raise RuntimeError(query)
        return sorted(range(len(documents)), key=lambda at: (-len(documents[at]), at))

    def close(self) -> None:
        Longest.closed += 1


def ordering(model: str, settings: Settings, environ: Mapping[str, str]) -> Longest:
    return Longest(model)
