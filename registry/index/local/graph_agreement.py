"""Whether an index and the graph beside it agree, and the refusal where they do not."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.registry.index.local.file import DamagedIndex, IndexFile, graph_of, is_damaged, open_to_read
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import RegistryError, RegistryUnusable

if TYPE_CHECKING:
    from waygraph.registry.graph.read import RegistryState

WHICH_HOLDS = (
    "put the lost files back. Or run `waygraph doctor --repair`, which makes the graph anew from the index; or "
    "`waygraph reindex`, which keeps the graph as it is, such as a backup that was put back, and makes the index anew"
)


def refuse_unknown(folder: Path, state: "RegistryState | None") -> None:
    """Raises RegistryUnusable if the graph at this state is behind its index, or is none that the index knows.

    An index that must be built anew may be behind its graph: then no note is taken of what is committed.
    """
    graph = (state.revision, state.commit) if state else (0, "")
    try:
        with closing(open_to_read(folder)) as file:
            index, intent = file.graph_version(), file.intent()
            is_unsound = is_damaged(folder) or not file.is_current_format
    except (RegistryError, DamagedIndex, LookupError, ValueError):
        return
    is_noted = is_unsound or (intent is not None and graph[1] in intent.commits)
    if graph != index and not (is_noted and graph[0] > index[0]):
        refuse_graph(folder, graph, index)


def refuse_graph(folder: Path, graph: tuple[int, str], index: tuple[int, str]) -> None:
    """Raises RegistryUnusable. Of each the revision and the commit."""
    (revision, commit), (index_revision, index_commit), place = graph, index, graph_of(folder)
    if is_foreign(folder):
        raise RegistryUnusable(
            place,
            f"{folder} is the index of another registry. Nothing was read or written. Put its own index back, or move "
            "that folder away: then the index is made anew from the graph, as `waygraph reindex` does in its place. If "
            "the index is the one to keep, move the graph file away and run `waygraph doctor --repair`.",
        )
    raise RegistryUnusable(
        place,
        f"its graph is at revision {revision} (commit {commit or 'none'}), its index shows revision {index_revision} "
        f"(commit {index_commit or 'none'}): a part of the log {place}.wal was lost, or "
        f"one of the files replaced. Nothing was written; lists, routes and `waygraph export` show what the index "
        f"holds. What to do: {WHICH_HOLDS}.",
    )


def is_foreign(folder: Path) -> bool:
    """Whether the index was made of another graph file than the one beside it."""
    return bool(_ask(folder, lambda file: file.is_foreign))


def published_state(folder: Path) -> IndexState | None:
    """What the current index says of itself; None if there is none that can be read."""
    return _ask(folder, lambda file: file.header().state)


def is_behind(folder: Path) -> bool:
    """Whether something may be committed that the index does not show, or it must be built anew.

    So it is while a writer commits, after one was killed, and where the index is damaged or of another format.
    """
    return is_damaged(folder) or not _ask(folder, lambda file: bool(file.header()) and file.intent() is None)


def _ask[T](folder: Path, question: Callable[[IndexFile], T]) -> T | None:
    """Of the current index; None if there is none that can be read."""
    try:
        with closing(open_to_read(folder)) as file:
            return question(file)
    except (RegistryError, DamagedIndex):
        return None
