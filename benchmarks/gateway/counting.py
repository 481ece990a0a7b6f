"""How many tokens a text is to a language model."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.world import World
from waygraph.registry.model.settings import DEFAULT_EMBEDDER


@dataclass(frozen=True, kw_only=True)
class Counter:
    """`vocabulary` is its name."""

    vocabulary: str
    count: Callable[[str], int]


def counter(world: World) -> Counter:
    """o200k_base where the package that holds it is installed, as `make bench-gateway` does; else the embedding
    model's own pieces of words, which are more.
    """
    return _o200k() or word_pieces(world)


def _o200k() -> Counter | None:
    try:
        package: Any = importlib.import_module("rs_bpe.bpe")
    except ImportError:
        return None
    return Counter(vocabulary="o200k_base", count=package.openai.o200k_base().count)


def word_pieces(world: World) -> Counter:
    """Of the default embedding model. Raises ModelNotFound."""
    from waygraph.registry.embedding.onnx import TextTokenizer
    from waygraph.registry.embedding.weights import TOKENIZER, locate

    folder = locate(DEFAULT_EMBEDDER, world.settings)
    whole = TextTokenizer(folder / TOKENIZER, max_tokens=sys.maxsize >> 32)
    return Counter(vocabulary="pieces of words of the embedding model", count=lambda text: len(whole.ids(text)))
