"""Two embedders without a model, as floors to stand on: hashed words, and latent semantic analysis of a catalogue.

They are opened by the names `hashing:DIMENSION` and `lsa:FILE`, by the entry points that packages have.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.contributed import install, on_path
from waygraph.registry.embedding.embedder import GROUP, EmbedderSpec, Matrix, Progress, Role
from waygraph.registry.model.settings import Settings

HASHED, COMPONENTS = 384, 200
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """In small letters; of CamelCase and snake_case names each part."""
    return [word.casefold() for word in _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))]


@dataclass(frozen=True, slots=True)
class HashedWords:
    """Feature hashing (Weinberger et al., 2009): each word adds 1 or -1 to one number; logarithms of its count."""

    dimension: int

    @property
    def fingerprint(self) -> str:
        return f"hashing:{self.dimension}@1"

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:  # noqa: ARG002 - of the protocol
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(matrix, texts, strict=True):
            for word, count in Counter(words(text)).items():
                place, sign = _place(word, self.dimension)
                row[place] += sign * (1 + log(count))
        return unit_rows(matrix)


@cache
def _place(word: str, dimension: int) -> tuple[int, int]:
    number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return (number >> 1) % dimension, 1 if number & 1 else -1


@dataclass(frozen=True, slots=True)
class LatentWords:
    """Latent semantic analysis (Deerwester et al., 1990): tf-idf over the words of some texts, by their first
    components.

    `weights`: float32 of shape (words, components), each row times the word's idf.
    """

    fingerprint: str
    places: Mapping[str, int]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, texts: Sequence[str], components: int = COMPONENTS) -> "LatentWords":
        counts = [Counter(words(text)) for text in texts]
        often = Counter(word for count in counts for word in count)
        places = {word: at for at, word in enumerate(sorted(often))}
        idf = np.array([log(len(texts) / often[word]) + 1 for word in places], np.float32)
        matrix = np.zeros((len(texts), len(places)), np.float32)
        for row, count in zip(matrix, counts, strict=True):
            for word, number in count.items():
                row[places[word]] = 1 + log(number)
        _, _, axes = np.linalg.svd(unit_rows(matrix * idf), full_matrices=False)
        digest = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        weights = np.asarray(axes[:components].T * idf[:, None], np.float32)
        return cls(f"lsa:{weights.shape[1]}@{digest}", places, weights)

    @property
    def dimension(self) -> int:
        return int(self.weights.shape[1])

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:  # noqa: ARG002 - of the protocol
        matrix = np.zeros((len(texts), self.dimension), np.float32)
        for at, text in enumerate(texts):
            for word, count in Counter(words(text)).items():
                if (place := self.places.get(word)) is not None:
                    matrix[at] += (1 + log(count)) * self.weights[place]
        return unit_rows(matrix)


def unit_rows(matrix: Matrix) -> Matrix:
    """Of length 1, or 0."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(lengths == 0, 1, lengths), np.float32)


def open_hashed(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> HashedWords:  # noqa: ARG001
    """As an entry point of `waygraph.embedders` is called."""
    return HashedWords(int(spec.model))


def open_latent(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> LatentWords:  # noqa: ARG001
    """As an entry point of `waygraph.embedders` is called. The file holds a text a line."""
    return _latent_words(Path(spec.model))


@cache
def _latent_words(file: Path) -> LatentWords:
    return LatentWords.of(file.read_text(encoding="utf-8", errors="surrogatepass").splitlines())


@contextmanager
def floors(folder: Path, texts: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Name → spec, as long as the block lasts. `texts`: what is analysed; `folder` is ours."""
    file = folder / "texts.txt"
    lines = (" ".join(text.split()) for text in texts)
    file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    points = {name: f"{__name__}:{opens.__name__}" for name, opens in (("hashing", open_hashed), ("lsa", open_latent))}
    install(folder, "floor-embedders", {}, points, group=GROUP)
    with on_path(folder):
        yield {"LSA of the catalogue": f"lsa:{file}", "hashed words": f"hashing:{HASHED}"}
