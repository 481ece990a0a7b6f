"""Whether a registry on the embedded engine is well: quick checks of what is published and of who writes, and on
request the graph against itself and the published index against the graph.
"""

import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.grafeo import refuse_foreign
from waygraph.registry.graph.read import read_state
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.index.local.graph_agreement import WHICH_HOLDS, is_behind, published_state, refuse_unknown
from waygraph.registry.index.local.index_upkeep import publish_whole
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.search_index import TEXT_LEGS, QueryText, Scope
from waygraph.registry.model.errors import (
    NeedsRegistry,
    RegistryError,
    RegistryLocked,
    RegistryUnusable,
    StorageFailed,
    WaygraphError,
)
from waygraph.registry.model.files import lock_of, write_lock
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.findings import (
    DAMAGE,
    Finding,
    Graph,
    absent,
    attempt,
    describe_index,
    graph_findings,
    refuse,
    restore_advice,
    shared_findings,
    versions,
)
from waygraph.registry.storage.integrity.index_dump import IndexDump
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import open_store
from waygraph.registry.storage.noun_list import NOUNS


def examine(registry: LocalRegistry, *, deep: bool = False) -> list[Finding]:
    """The findings, in the order of the checks; never raises for what is wrong with the registry.

    Quick checks read only what is published. `deep` waits for the write lock, then recomputes every hash of the
    live graph and compares the published index with one built anew; what a killed writer left is published.
    On a graph server there is no such lock: it reads one revision whole, and changes nothing. Raises NeedsRegistry
    for what a service keeps.
    """
    store = registry.store
    if isinstance(store, EmbeddedStore):
        return examine_embedded(registry, store, deep=deep)
    from waygraph.registry.storage.integrity.server_checks import examine_server
    from waygraph.registry.storage.server import ServerStore

    if not isinstance(store, ServerStore):
        raise NeedsRegistry(store.place)
    return examine_server(registry, store, deep=deep)


def examine_at(
    location: str | Path, *, deep: bool = False, settings: Settings | None = None, environ: Mapping[str, str]
) -> list[Finding]:
    """The same for a registry that may be too damaged for `Registry.open`."""
    settings = load_settings(environ) if settings is None else settings
    if deep:  # all of it is read in one transaction, which may take as long as one that writes
        patience_s = max(settings.neo4j_read_timeout_s, settings.neo4j_write_timeout_s)
        settings = replace(settings, neo4j_read_timeout_s=patience_s)
    with LocalRegistry(open_store(location, settings), settings, environ, settings.embedder) as registry:
        return examine(registry, deep=deep)


def examine_embedded(registry: LocalRegistry, store: EmbeddedStore, *, deep: bool) -> list[Finding]:
    """See examine."""
    try:
        if not store.exists:
            return [absent(store.place), versions()]
        store.refuse_foreign_index()
    except WaygraphError as error:
        waits = "wait until it has ended, then look again"
        ways = f"if that gives no remedy, name another place, or {restore_advice(store.place)}"
        advice = waits if error.retryable else ways
        return [Finding(check="registry", ok=False, detail=str(error), advice=advice), versions()]
    findings = [check(store) for check in (_graph_file, _writer, _pending, _schema, _index, _graph_copy)]
    findings += shared_findings(registry)
    if deep:
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
        reason = f"{store.path} is missing"
    except (RegistryUnusable, StorageFailed) as unusable:
        reason = str(unusable).rstrip(".")
    return Finding(
        check="graph file", ok=False, detail=f"{reason}; the index still answers", advice=restore_advice(store.place)
    )


def _writer(store: EmbeddedStore) -> Finding:
    return Finding(check="writer", ok=True, detail=holder(store) or "no one writes")


def holder(store: EmbeddedStore) -> str:
    """Who holds the write lock now; empty if no one does."""
    if store.path is None or not lock_of(store.path).exists():
        return ""
    try:
        with write_lock(store.path, 0, brief=False):
            return ""
    except RegistryLocked as error:
        return error.holder
    except RegistryError:  # a folder that cannot be written has no writer
        return ""


def _pending(store: EmbeddedStore) -> Finding:
    if is_behind(store.folder) and not holder(store):
        return Finding(
            check="pending",
            ok=False,
            detail="a writer ended before the index showed what it wrote, or somebody met damage in the index",
            advice="open the registry again, such as with `waygraph status`: that publishes it; "
            "if this is told again, `waygraph doctor --deep` says what stands against it",
        )
    return Finding(check="pending", ok=True, detail="everything committed is published")


def _schema(store: EmbeddedStore) -> Finding:
    state = published_state(store.folder)
    schema = state.schema_version if state else None
    is_known = schema is not None and schema <= SCHEMA_VERSION
    detail = "cannot be read" if schema is None else f"{schema}; this Waygraph knows {SCHEMA_VERSION}"
    advice = rebuild_advice(store) if schema is None else "upgrade waygraph"
    return Finding(check="schema", ok=is_known, detail=detail, advice="" if is_known else advice)


def _index(store: EmbeddedStore) -> Finding:
    """Opens the published index, and reads a little of each part."""

    def look() -> str:
        with closing(LocalIndex.open(store.folder)) as index:
            index.search({*TEXT_LEGS, "name"}, None, QueryText.of("a word"), 1, Scope())
            index.tools([tool_id for agent_id in index.agents() for tool_id in index.tool_ids(agent_id)[:1]][:1])
            return describe_index(index)

    return attempt("index", look, rebuild_advice(store))


def _graph_copy(store: EmbeddedStore) -> Finding:
    """Whether Cypher, the log of changes and rehearsals see the revision that routes see."""

    def look() -> str:
        state = store.read(read_state)
        refuse_unknown(store.folder, state)
        return f"revision {state.revision}" if state else "empty"

    return attempt("graph copy", look, WHICH_HOLDS)


def examine_deep(store: EmbeddedStore, settings: Settings) -> list[Finding]:
    """Over the live graph, under the write lock; over the published copy if the live one cannot be had."""
    try:
        if store.path is None or store.path.exists():
            with store.reading_alone() as session:
                alone = Finding(check="live graph", ok=True, detail="held alone while it was examined")
                return [alone, *_examine(session, store, settings)]
        reason = f"{store.path} is missing"
    except DAMAGE as error:
        reason = str(error)
    finding = Finding(
        check="live graph", ok=False, detail=f"{reason} (see below: its copy)", advice=restore_advice(store.place)
    )
    return [finding, *_over_copy(store, settings)]


def _over_copy(store: EmbeddedStore, settings: Settings) -> list[Finding]:
    try:
        return store.read(lambda session: _examine(session, store, settings))
    except DAMAGE as error:
        return [Finding(check="copy", ok=False, detail=str(error), advice=restore_advice(store.place))]


def _examine(session: GraphSession, store: EmbeddedStore, settings: Settings) -> list[Finding]:
    graph = Graph(session, settings)
    return [*graph_findings(graph, restore_advice(store.place)), *_index_findings(session, graph, store)]


# -- the index against the graph --------------------------------------------------------------------


def _index_findings(session: GraphSession, graph: Graph, store: EmbeddedStore) -> list[Finding]:
    """What the published index holds against what one holds that is built anew in a scratch folder."""
    advice = rebuild_advice(store)
    revision = attempt("index revision", lambda: _same_revision(graph, store), advice)
    if not revision.ok:
        return [revision]
    with tempfile.TemporaryDirectory(prefix="waygraph-doctor-") as scratch:
        try:
            publish_whole(Path(scratch), session, NOUNS)
            current, fresh = IndexDump.of(store.folder), IndexDump.of(Path(scratch))
        except DAMAGE as error:
            return [revision, Finding(check="index contents", ok=False, detail=str(error), advice=advice)]
    findings = [attempt(f"index {part}", partial(_same_part, part, current, fresh), advice) for part in fresh.parts]
    return [revision, *findings]


def _same_revision(graph: Graph, store: EmbeddedStore) -> str:
    refuse_unknown(store.folder, graph.state)
    return f"{graph.state.revision}, as the graph"


def _same_part(part: str, current: IndexDump, fresh: IndexDump) -> str:
    ours, reference = current.parts.get(part, {}), fresh.parts[part]
    refuse(name for name in sorted({*ours, *reference}) if ours.get(name) != reference.get(name))
    return "as built anew"
