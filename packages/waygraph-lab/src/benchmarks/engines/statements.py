"""Every statement on both engines, over the same graph: where answers or what is left in the graph differ."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.engines.contenders import CONTENDERS, FILE
from benchmarks.engines.samples import UNDO, fill, sample
from waygraph.cypher import load, names
from waygraph.registry.graph.engine import GraphEngine, Rows
from waygraph.registry.model.errors import RegistryError

type Outcome = tuple[object, dict[str, Rows]]
"""A statement's rows or its error, and the rows of every statement that reads without parameters after it."""


def common_statements() -> list[str]:
    """Those that every engine runs."""
    return [name for name in names() if not name.startswith("neo4j/")]


def differing_statements(folder: Path) -> list[str]:
    """The names of those whose outcome is not the same on all engines."""
    differing = []
    for name in common_statements():
        outcomes = [_outcome(name, each.open, folder / each.name / name) for each in CONTENDERS.values()]
        if any(outcome != outcomes[0] for outcome in outcomes):
            differing.append(name)
    return differing


def _outcome(name: str, opened: Callable[[Path], GraphEngine], folder: Path) -> Outcome:
    folder.mkdir(parents=True)
    with closing(opened(folder / FILE)) as engine:
        fill(engine)
        if name in UNDO:
            engine.run(load(UNDO[name]), **sample(UNDO[name]))
        try:
            rows: object = engine.run(load(name), **sample(name))
        except RegistryError as error:
            rows = type(error).__name__
        reads = [load(each) for each in common_statements() if not load(each).params and not load(each).writes]
        return rows, {each.name: engine.run(each) for each in reads}
