"""One revision of the registry, whole: what a generation is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.changes import SourceSummary
from waygraph.registry.index.search_index import IndexState
from waygraph.registry.model import Agent, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Agents (as they hold now) in index order, tools in order of id, and a vector for each.

    Index order of agents: those with tools first, then those without, each by id. `vectors` is float32 of shape
    (agents + tools, dimension), agents first; of dimension 0 if the registry has no embedder. `vector_keys` says
    of which texts and model each row was made.
    """

    state: IndexState
    agents: Sequence[Agent]
    tools: Sequence[Tool]
    vectors: "NDArray[np.float32]"
    vector_keys: Sequence[str]
    sources: Sequence[SourceSummary]


def index_order(agents: Mapping[str, Agent], owners: set[str]) -> list[Agent]:
    """Agents with tools by id, then those without by id."""
    return sorted(agents.values(), key=lambda agent: (agent.id not in owners, agent.id))
