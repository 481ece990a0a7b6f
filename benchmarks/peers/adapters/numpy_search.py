"""What anybody writes in an afternoon: a matrix of sentence vectors and one product."""

from typing import TYPE_CHECKING

from benchmarks.peers.peer import READ_TOOLS, described_tools, distinct_owners, owners_of
from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest


class NumpyTools:
    """Tools by cosine; the owner of the best comes first."""

    def __init__(self, vectors: Vectors, *, prefixed: bool = False) -> None:
        self._vectors, self._prefixed = vectors, prefixed

    def ingest(self, catalogue: "Manifest") -> None:
        texts = described_tools(catalogue, prefixed=self._prefixed)
        self._owners = owners_of(catalogue)
        self._ids = list(texts)
        self._matrix = self._vectors.of_documents(list(texts.values()))

    def ask(self, text: str, limit: int) -> list[str]:
        return distinct_owners(self._best(text), self._owners, limit)

    def _best(self, text: str) -> list[str]:
        import numpy as np

        cosines = self._matrix @ self._vectors.of_query(text)
        return [self._ids[row] for row in np.argsort(-cosines, kind="stable")[:READ_TOOLS]]


class NumpyToolsAndAgents(NumpyTools):
    """Tools and agents in one list by cosine, type-weighted reciprocal ranks of equal weights (1, 1): with these
    Algorithm 1 of "Agent-as-a-Graph" keeps the order of the list, and walks from each to its agent."""

    def ingest(self, catalogue: "Manifest") -> None:
        agents = {entry.agent.id: f"{entry.agent.name}: {entry.agent.description}" for entry in catalogue.entries}
        texts = described_tools(catalogue, prefixed=self._prefixed) | agents
        self._owners = owners_of(catalogue) | {agent: agent for agent in agents}
        self._ids = list(texts)
        self._matrix = self._vectors.of_documents(list(texts.values()))
