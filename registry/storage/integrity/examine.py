"""Whether a registry on the embedded engine is well: quick checks of what is published and of who writes, and on
request the graph against itself and the published index against the graph.
"""

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.grafeo import refuse_foreign
from waygraph.registry.graph.read import read_state
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.index.local.file import (
    DamagedIndex,
    Header,
    IndexFile,
    decode,
    open_to_read,
    row_type,
    unpack_postings,
    unusable,
)
from waygraph.registry.index.local.graph_agreement import WHICH_HOLDS, is_behind, published_state, refuse_unknown
from waygraph.registry.index.local.index_upkeep import publish_whole
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.search_index import TEXT_LEGS, QueryText, Scope
from waygraph.registry.model import errors
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
        raise errors.NeedsRegistry(store.place)
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
    except errors.WaygraphError as error:
        waits = "wait until it has ended, then look again"
        ways = f"if that gives no remedy, name another place, or {restore_advice(store.place)}"
        advice = waits if error.retryable else ways
        return [Finding(check="registry", ok=False, detail=str(error), advice=advice), versions()]
    writer = Finding(check="writer", ok=True, detail=holder(store) or "no one writes")
    findings = [_graph_file(store), writer, _pending(store), _schema(store)]
    findings.append(attempt("index", partial(_index, store), rebuild_advice(store)))
    findings.append(attempt("graph copy", partial(_graph_copy, store), WHICH_HOLDS))
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
    try:
        refuse_foreign(store.path)
        return Finding(check="graph file", ok=True, detail=f"{store.path.stat().st_size / 1e6:.1f} MB")
    except FileNotFoundError:
        reason = f"{store.path} is missing"
    except (errors.RegistryUnusable, errors.StorageFailed) as unusable:
        reason = str(unusable).rstrip(".")
    return Finding(
        check="graph file", ok=False, detail=f"{reason}; the index still answers", advice=restore_advice(store.place)
    )


def holder(store: EmbeddedStore) -> str:
    """Who holds the write lock now; empty if no one does."""
    if not lock_of(store.path).exists():
        return ""
    try:
        with write_lock(store.path, 0, brief=False):
            return ""
    except errors.RegistryLocked as error:
        return error.holder
    except errors.RegistryError:  # a folder that cannot be written has no writer
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


def _index(store: EmbeddedStore) -> str:
    """Opens the published index, and reads a little of each part."""
    with closing(LocalIndex.open(store.folder)) as index:
        index.search({*TEXT_LEGS, "name"}, None, QueryText.of("a word"), 1, Scope())
        index.tools([tool_id for agent_id in index.agents() for tool_id in index.tool_ids(agent_id)[:1]][:1])
        return describe_index(index)


def _graph_copy(store: EmbeddedStore) -> str:
    """Whether Cypher, the log of changes and rehearsals see the revision that routes see."""
    state = store.read(read_state)
    refuse_unknown(store.folder, state)
    return f"revision {state.revision}" if state else "empty"


def examine_deep(store: EmbeddedStore, settings: Settings) -> list[Finding]:
    """Over the live graph, under the write lock; over the published copy if the live one cannot be had."""
    try:
        if store.path.exists():
            with store.reading_alone() as session:
                alone = Finding(check="live graph", ok=True, detail="held alone while it was examined")
                return [alone, *_examine(session, store, settings)]
        reason = f"{store.path} is missing"
    except DAMAGE as error:
        reason = str(error)
    finding = Finding(
        check="live graph", ok=False, detail=f"{reason} (see below: its copy)", advice=restore_advice(store.place)
    )
    try:
        return [finding, *store.read(lambda session: _examine(session, store, settings))]
    except DAMAGE as error:
        return [finding, Finding(check="copy", ok=False, detail=str(error), advice=restore_advice(store.place))]


def _examine(session: GraphSession, store: EmbeddedStore, settings: Settings) -> list[Finding]:
    graph = Graph(session, settings)
    return [*graph_findings(graph, restore_advice(store.place)), *_index_findings(session, graph, store)]


# -- the index against the graph --------------------------------------------------------------------


def _index_findings(session: GraphSession, graph: Graph, store: EmbeddedStore) -> list[Finding]:
    """What the published index holds against what one holds that is built anew in a scratch folder."""
    advice = rebuild_advice(store)

    def same_revision() -> str:
        refuse_unknown(store.folder, graph.state)
        return f"{graph.state.revision}, as the graph"

    revision = attempt("index revision", same_revision, advice)
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


def _same_part(part: str, current: "IndexDump", fresh: "IndexDump") -> str:
    ours, reference = current.parts.get(part, {}), fresh.parts[part]
    refuse(name for name in sorted({*ours, *reference}) if (ours.get(name) or None) != (reference.get(name) or None))
    return "as built anew"


_FLOAT_PARTS = ("near",)
"""Parts whose numbers another processor may see otherwise in their last digits."""


@dataclass(frozen=True, slots=True)
class IndexDump:
    """All that an index file says, in a form that does not depend on the order in which it was written.

    `parts`: of each part name → what is said of it. Two dumps of the same revision are equal."""

    parts: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> "IndexDump":
        """Reads all of the current index. Raises RegistryNotFound, RegistryUnusable, StorageFailed."""
        with closing(open_to_read(folder)) as file:
            try:
                with file.at_once():
                    return _dump(file)
            except DamagedIndex as exc:
                raise unusable(folder, exc) from exc


def _dump(file: IndexFile) -> IndexDump:
    if (fault := file.fetch("PRAGMA quick_check(1)")[0][0]) != "ok":
        raise DamagedIndex(fault)
    header = file.header()
    ids, entities, checks = _entities(file, header)
    parts: dict[str, Mapping[str, Any]] = {"state": asdict(header.state), "rows": entities, "words": _words(file, ids)}
    parts["records"] = {ids[row]: body for row, body in file.scan("record") if row in ids}
    rows = np.asarray([row for row in ids if checks[row]], np.int64)
    vectors = file.vectors(rows, checks[rows], header.state.dimension)
    parts["vectors"] = {ids[row]: vector.tobytes() for row, vector in zip(rows.tolist(), vectors, strict=True)}
    for name in header.parts:
        value = decode(file.part(name, header) or b"null")
        parts[name] = {name: sorted(value) if name in _FLOAT_PARTS else value}
    return IndexDump(parts)


def _entities(file: IndexFile, header: Header) -> tuple[Mapping[int, str], Mapping[str, Any], NDArray[np.int32]]:
    """Row → id of those that hold; id → owner and numbers; the checksums of all rows' vectors. What a writer knows of
    these rows is what readers see.
    """
    owners, rows = dict[int, str](), dict[str, int]()
    for (agent_id,) in file.fetch("SELECT key FROM agent"):
        number, entities = decode(file.read("agent", agent_id))
        owners[number] = agent_id
        rows.update({entity_id: row for entity_id, (row, *_) in entities.items()})
    blocks, dead = [*file.columns(header)], set(file.dead_rows(header))
    ids = {row: each for row, each in enumerate(each for block in blocks for each in block.ids) if row not in dead}
    if {row: entity_id for entity_id, row in rows.items()} != ids:
        raise DamagedIndex("its agents do not know their rows")
    numbers = np.concatenate([np.empty(0, row_type(header.state.dimension)), *(block.numbers for block in blocks)])
    row_owners = [owners.get(number) for number in numbers["owner"].tolist()]
    numbers["owner"] = 0  # given in the order of writing
    entities = {entity_id: (row_owners[row], numbers[row].tobytes()) for row, entity_id in ids.items()}
    return ids, entities, numbers["check"]


def _words(file: IndexFile, ids: Mapping[int, str]) -> Mapping[str, str]:
    """Word → a digest of who holds it and how often."""
    words, blocks_by_term = dict[int, str](), dict[int, int]()
    for _, body in file.scan("words"):
        for word, (term, blocks) in decode(body).items():
            words[term], blocks_by_term[term] = word, blocks
    postings = file.scan("posting")
    if dict(Counter(key >> 24 for key, _ in postings)) != blocks_by_term:
        raise DamagedIndex("words are missing")
    holders: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key, body in postings:
        pairs = zip(*(each.tolist() for each in unpack_postings(key, body)), strict=True)
        holders[words[key >> 24]] += [(ids[row], count) for row, count in pairs if row in ids]
    return {word: hashlib.sha256(repr(sorted(each)).encode()).hexdigest() for word, each in holders.items() if each}
