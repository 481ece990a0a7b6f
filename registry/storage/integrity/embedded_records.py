"""The deep checks of an embedded registry: the graph against itself, the published index against the graph."""

import json
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.registry.graph.engine import Copying, GraphEngine
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.local.publish import publish_graph, published_revision
from waygraph.registry.index.local.scoring import FILES
from waygraph.registry.model.errors import RegistryError
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.embedded_checks import rebuild_advice
from waygraph.registry.storage.integrity.findings import DAMAGE, Finding, attempt, restore_advice
from waygraph.registry.storage.integrity.graph_checks import Graph, graph_findings, refuse


def examine_deep(store: EmbeddedStore, settings: Settings) -> list[Finding]:
    """Over the live graph, under the write lock; over the published copy if the live one cannot be had."""
    findings: list[Finding] = []
    try:
        if store.path is None or store.path.exists():
            with store.writing() as (engine, *_):
                findings = [Finding(check="live graph", ok=True, detail="held alone while it was examined")]
                findings += _examined(engine, store, settings)
                return findings  # the publication at the end of the block may still raise
        reason = f"{store.path} is missing"
    except DAMAGE as error:
        reason = str(error)
    told = Finding(
        check="live graph", ok=False, detail=f"{reason} (see below: its copy)", advice=restore_advice(store.place)
    )
    return [told, *findings[1:]] if findings else [told, *_over_copy(store, settings)]


def _over_copy(store: EmbeddedStore, settings: Settings) -> list[Finding]:
    try:
        with (
            closing(LocalIndex.open(store.folder)) as index,
            closing(GrafeoEngine.open_copy(index.graph_copy)) as engine,
        ):
            return _examined(engine, store, settings)
    except DAMAGE as error:
        return [Finding(check="copy", ok=False, detail=str(error), advice=restore_advice(store.place))]


def _examined(engine: GraphEngine, store: EmbeddedStore, settings: Settings) -> list[Finding]:
    graph = Graph(engine, settings)
    return [*graph_findings(graph, restore_advice(store.place)), *_index_findings(engine, graph, store)]


# -- the index against the graph --------------------------------------------------------------------

_FILES = {
    "index state": (generation.STATE,),
    "index tables": (generation.TABLES, generation.NAMES),
    "index records": (generation.RECORDS, generation.OFFSETS),
    "index sources": (generation.SOURCES,),
    "index keys": (generation.KEYS,),
    "index texts": tuple(
        f"{texts}/{file}" for texts in (generation.AGENT_TEXT, generation.CAPABILITY_TEXT) for file in FILES
    ),
}


def _index_findings(engine: GraphEngine, graph: Graph, store: EmbeddedStore) -> list[Finding]:
    """The published files against those of an index built anew in a scratch folder."""
    advice = rebuild_advice(store)
    revision = attempt("index revision", lambda: _same_revision(graph, store), advice)
    if not revision.ok:
        return [revision]
    with tempfile.TemporaryDirectory(prefix="waygraph-doctor-") as scratch:
        try:
            fresh, held = _built(engine, Path(scratch)), _current(store.folder)
        except DAMAGE as error:
            return [revision, Finding(check="index", ok=False, detail=str(error), advice=advice)]
        findings = [attempt(check, _same_files(held, fresh, names), advice) for check, names in _FILES.items()]
        findings.append(attempt("index vectors", lambda: _same_vectors(held, fresh), advice))
        findings.append(attempt("index copy", lambda: _same_copy(held, graph), advice))
    return [revision, *findings]


def _same_revision(graph: Graph, store: EmbeddedStore) -> str:
    published = published_revision(store.folder)
    if published != graph.state.revision:
        raise RegistryError(f"the index shows revision {published}, the graph is at {graph.state.revision}")
    return f"{published}, as the graph"


def _built(engine: GraphEngine, scratch: Path) -> Path:
    if not isinstance(engine, Copying):
        raise RegistryError("this engine cannot publish a copy")
    publish_graph(scratch, engine)
    return _current(scratch)


def _current(folder: Path) -> Path:
    return folder / generation.current_name(folder)


def _same_files(held: Path, fresh: Path, names: Iterable[str]) -> Callable[[], str]:
    def look() -> str:
        refuse(name for name in names if _content(held / name) != _content(fresh / name))
        return "as built anew"

    return look


def _content(file: Path) -> object:
    """The bytes; of JSON the value, since the order of names in it says nothing."""
    content = file.read_bytes()
    return json.loads(content.decode("utf-8", "surrogatepass")) if file.suffix == ".json" else content


def _same_vectors(held: Path, fresh: Path) -> str:
    ours, wanted = np.load(held / generation.VECTORS), np.load(fresh / generation.VECTORS)
    if ours.shape != wanted.shape or ours.dtype != wanted.dtype:
        raise RegistryError(f"{ours.dtype} of shape {ours.shape}, not {wanted.dtype} of {wanted.shape}")
    ids = _row_ids(fresh)
    refuse(ids[row] for row in np.flatnonzero((ours != wanted).any(axis=1)))
    return f"{len(ids)}, as in the graph"


def _row_ids(folder: Path) -> list[str]:
    tables: Any = _content(folder / generation.TABLES)
    return [*(agent["id"] for agent in tables["agents"]), *tables["tool_ids"]]


def _same_copy(held: Path, graph: Graph) -> str:
    with closing(GrafeoEngine.open_copy(held / generation.GRAPH)) as engine:
        copy = Graph(engine, graph.settings)
        refuse(
            what
            for what in ("state", "agents", "tools", "claims", "operators", "vector_keys")
            if getattr(copy, what) != getattr(graph, what)
        )
    return "holds what the graph holds"
