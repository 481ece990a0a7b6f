"""What a reranker is, and where other packages name theirs."""

from collections.abc import Sequence
from typing import Protocol

GROUP = "waygraph.rerankers"
"""Entry points, each called as its scheme is."""


class Reranker(Protocol):
    """Puts candidates in order by their texts. Threads may share it."""

    def order(self, query: str, documents: Sequence[str]) -> Sequence[int]:
        """Every index into `documents` once, best first. Raises LanguageModelUnavailable, LanguageModelRefused."""
        ...

    def close(self) -> None: ...
