"""Quick checks of a registry on the embedded engine: of what is published, and of who writes."""

from contextlib import closing
from typing import get_args

from waygraph.registry.graph.grafeo import GrafeoEngine, refuse_foreign
from waygraph.registry.graph.read import read_state
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.local.publish import published_schema
from waygraph.registry.index.search_index import TEXT_LEGS, Scope
from waygraph.registry.model.errors import RegistryError, RegistryLocked, RegistryUnusable, StorageFailed, WaygraphError
from waygraph.registry.model.files import lock_of, write_lock
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.registry import Registry
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.findings import (
    Finding,
    absent,
    attempt,
    embedder_finding,
    restore_advice,
    versions,
)


def examine_embedded(registry: Registry, store: EmbeddedStore, *, deep: bool) -> list[Finding]:
    """See examine."""
    try:
        if not store.exists:
            return [absent(store.place), versions()]
    except WaygraphError as error:
        waits = "wait until it has ended, then look again"
        advice = waits if error.retryable else f"name another place, or {restore_advice(store.place)}"
        return [Finding(check="registry", ok=False, detail=str(error), advice=advice), versions()]
    findings = [check(store) for check in (_graph_file, _writer, _pending, _schema, _generation, _graph_copy)]
    findings += [embedder_finding(registry), versions()]
    if deep:
        from waygraph.registry.storage.integrity.embedded_records import examine_deep

        findings += examine_deep(store, registry.settings)
    return [Finding(check="registry", ok=True, detail=store.place), *findings]


def rebuild_advice(store: EmbeddedStore) -> str:
    """How a published index is mended that cannot be trusted."""
    return (
        "save what it still answers (`waygraph export -o saved.json`), see by `waygraph doctor --deep` that the graph "
        f"is sound, then remove the folder {store.folder}: the index is built anew from the graph"
    )


def _graph_file(store: EmbeddedStore) -> Finding:
    if store.path is None:
        return Finding(check="graph file", ok=True, detail="in memory")
    try:
        refuse_foreign(store.path)
        return Finding(check="graph file", ok=True, detail=f"{store.path.stat().st_size / 1e6:.1f} MB")
    except FileNotFoundError:
        seen = f"{store.path} is missing"
    except (RegistryUnusable, StorageFailed) as unusable:
        seen = str(unusable).rstrip(".")
    advice = (
        "before anything is written here, run `waygraph export -o saved.json`; then ingest that into a new registry"
    )
    return Finding(
        check="graph file",
        ok=False,
        detail=f"{seen}; the index still answers from its copy",
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
            advice="open the registry again, such as with `waygraph status`: that publishes it; "
            "if this is told again, `waygraph doctor --deep` says what stands against it",
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
