"""Peers that are none: what the comparison asks of a library, without a library. They run in their own processes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchmarks.peers.peer import distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.ingest.manifest.records import Manifest


class ByLetters:
    """Tools whose names begin with a word of the text. It prints, as libraries do."""

    def __init__(self, vectors: Vectors) -> None:
        self._owners: Mapping[str, str] = {}
        print("loading …")  # noqa: T201 - that is the point
        assert vectors.documents == 0

    def ingest(self, catalogue: "Manifest") -> None:
        self._owners = owners_of(catalogue)

    def ask(self, text: str, limit: int) -> list[str]:
        print("asked", text)  # noqa: T201
        words = tuple(text.split())
        found = [tool for tool in self._owners if tool.partition("/")[2].startswith(words)]
        return distinct_owners(found, self._owners, limit)


class Breaking(ByLetters):
    """Answers what it is tried with, then breaks."""

    asked = 0

    def ask(self, text: str, limit: int) -> list[str]:
        self.asked += 1
        if self.asked > 5:
            raise RuntimeError("out of tools")
        return super().ask(text, limit)


class NotInstalled(ByLetters):
    def ingest(self, catalogue: "Manifest") -> None:  # noqa: ARG002
        raise ImportError("No module named 'that_library'")
