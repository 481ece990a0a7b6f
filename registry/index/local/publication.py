"""One session of writes, and how the index follows it.

What is about to be committed is written down before the graph's commit: which commits may follow, and the agents that
they change. Whoever finds that note and no writer reads these agents from the graph. Where neither the note nor the
index knows the graph's commit, a log was lost or a file replaced: nothing is written until a person says which of the
two holds.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waygraph.registry.graph.contents import GraphNoun
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import read_state
from waygraph.registry.index.local.file import (
    DamagedIndex,
    IndexFile,
    Intent,
    current_path,
    is_damaged,
    mark_damaged,
    open_to_write,
)
from waygraph.registry.index.local.graph_agreement import refuse_graph
from waygraph.registry.index.local.index_upkeep import publish_changes, publish_whole, shows
from waygraph.registry.model.errors import RegistryUnusable


class Publication:
    """Under the registry's write lock, from before the first write to after the last."""

    def __init__(self, folder: Path, session: GraphSession, nouns: Sequence[GraphNoun[Any]], *, whole: bool) -> None:
        """`nouns`: the kinds of values beside agents and tools. `whole`: the index is not to be trusted.

        Raises RegistryUnusable for a graph that the index does not know; StorageFailed where nothing can be written.
        """
        self._folder, self._session, self._nouns = folder, session, nouns
        self._file: IndexFile | None = None
        self._intent = Intent()
        self.state = read_state(session)
        """Of the graph, before the first write."""
        if (path := current_path(folder)) is None:
            return
        try:
            if not whole and not is_damaged(folder):
                self._file = open_to_write(path)
                self._intent = self._begin(self._file)
        except DamagedIndex:
            self.close()
        except RegistryUnusable:
            self.close()
            raise
        if self._file is None or self._intent.agent_ids is None:
            mark_damaged(folder)

    def _begin(self, file: IndexFile) -> Intent:
        """What differs between the index and the graph, if the note of a writer that was killed says so."""
        intent, state = file.intent(), self.state
        if shows(file.header().state, state):
            return Intent()
        if intent and state and state.commit in intent.commits:
            return intent
        graph = (state.revision, state.commit) if state else (0, "")
        if graph != file.graph_version():
            refuse_graph(self._folder, graph, file.graph_version())
        return Intent(agent_ids=None)

    @contextmanager
    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:
        """Around a transaction that changes these agents, or whose tools; None: any."""
        if self._file is not None:  # else the index is built anew
            state = read_state(session)
            self._intent = self._intent.with_write(state.commit if state else "", agent_ids)
            self._file.put_intent(self._intent)
        yield

    def publish(self) -> None:
        """Brings the index to the graph's revision. Raises StorageFailed."""
        if not self._publish_changes():
            self.close()
            publish_whole(self._folder, self._session, self._nouns)

    def _publish_changes(self) -> bool:
        """Whether that was enough."""
        if self._file is None or self._intent.agent_ids is None or is_damaged(self._folder):
            return False
        try:
            header, state = self._file.header(), read_state(self._session)
            is_explained = shows(header.state, state) or (state and state.commit in self._intent.commits)
            return bool(is_explained) and publish_changes(
                self._file, self._session, self._intent.agent_ids, self._nouns
            )
        except DamagedIndex:
            return False

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
