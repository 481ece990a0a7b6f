"""What a process that publishes again and again keeps of the generation before."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import RegistryState, StoredTool, read_state, read_tools, read_tools_of
from waygraph.registry.index.made import Made, made_of
from waygraph.registry.index.snapshot import Snapshot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = Mapping[str, NDArray[np.float32]]

KEPT_TOOLS = 20_000
"""Of a registry with more nothing is kept; so many take about 100 MB."""


@dataclass(slots=True)
class Kept:
    """A process that publishes once keeps nothing, and a large registry is not held in memory.

    Tools are read anew only of agents that were written since: that is known where every write in between was noted
    here, and the graph was at the kept revision before.
    """

    _made: Made = field(default_factory=Made)
    _vectors: "Rows" = field(default_factory=dict)
    _tools: Sequence[StoredTool] = ()
    _of: RegistryState | None = None
    """The state of which `_tools` are all; None: nothing is kept."""
    _touched: set[str] = field(default_factory=set)
    _writes: int = 0
    _published: bool = False

    def begin(self, session: GraphSession) -> None:
        """A session of writes begins. What another process wrote meanwhile makes all that is kept void."""
        self._touched, self._writes = set(), 0
        if self._of is not None and read_state(session) != self._of:
            self._of, self._vectors = None, {}

    @contextmanager
    def note(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:  # noqa: ARG002
        """Around a transaction that changes these agents, or whose tools; None: any."""
        self._writes += 1
        if agent_ids is None:
            self._of = None
        else:
            self._touched |= set(agent_ids)
        yield

    def tools_now(self, session: GraphSession, state: RegistryState) -> Sequence[StoredTool]:
        """All tools, by id."""
        tools = read_tools(session) if not self._reaches(state) else self._brought_up(session)
        if self._published and len(tools) <= KEPT_TOOLS:
            self._tools, self._of = tools, state
        else:
            self._tools, self._of = (), None
        self._touched, self._writes = set(), 0
        return tools

    @property
    def vectors(self) -> "Rows":
        """Vector key → vector of the generation before; empty if they are not kept. A key tells model and text."""
        return self._vectors

    def made_of(self, snapshot: Snapshot) -> Made:
        """What the generation of this snapshot holds of each entity."""
        made = made_of(snapshot, self._made)
        keeps = self._of is not None
        self._made = made if keeps else Made()
        rows = zip(snapshot.vector_keys, snapshot.vectors, strict=True) if keeps else ()
        self._vectors = {key: row for key, row in rows if key}
        self._published = True
        return made

    def _reaches(self, state: RegistryState) -> bool:
        return self._of is not None and state.revision == self._of.revision + self._writes

    def _brought_up(self, session: GraphSession) -> Sequence[StoredTool]:
        others = [stored for stored in self._tools if stored.tool.agent_id not in self._touched]
        written = read_tools_of(session, sorted(self._touched))
        return sorted([*others, *written], key=lambda stored: stored.tool.id)
