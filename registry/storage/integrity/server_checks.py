"""Whether a registry on a graph server is well: quick checks, and on request deep ones."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from waygraph.cypher import load
from waygraph.registry.graph.engine import DEAD_COMMIT_MS, GraphSession
from waygraph.registry.graph.neo4j import IN_INDEX_FILTERS
from waygraph.registry.graph.schema import MIGRATIONS, SCHEMA_VERSION, seen_migrations
from waygraph.registry.index.neo4j_index import Neo4jIndex, faults, labels_not_unique, text_indexes, vector_indexes
from waygraph.registry.index.neo4j_upkeep import Comparison
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, QueryText, Scope
from waygraph.registry.model.errors import RegistryError
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity import findings as checks
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.server import ServerStore

_NEO4J_CHECK_SERVER = load("neo4j/check/server")
_NEO4J_CHECK_TEXTS = load("neo4j/check/texts")
_NEO4J_COMMIT_READ_MARK = load("neo4j/commit/read_mark")

REMAKE_INDEXES = "run `waygraph reindex`: it makes indexes and constraints anew"
ANY_WRITE = "any write mends it, such as ingesting a source again"


def examine_server(registry: LocalRegistry, store: ServerStore, *, deep: bool = False) -> list[checks.Finding]:
    """The findings, in the order of the checks; never raises for what is wrong with the registry."""
    findings = [checks.attempt("server", partial(_server, store), "see docs/storage.md, What may go wrong")]
    if findings[0].ok:
        findings.append(_registry(store))
    if not findings[-1].ok:
        return [*findings, checks.versions()]
    for check, look, advice in (
        ("writer", _writer, ANY_WRITE),
        ("schema", _schema, ANY_WRITE),
        ("constraints", _constraints, REMAKE_INDEXES),
        ("text indexes", lambda store: _whole(faults(store.engine, text_indexes())), REMAKE_INDEXES),
        ("vector indexes", _vector_indexes, REMAKE_INDEXES),
        ("search", _search, REMAKE_INDEXES),
    ):
        findings.append(checks.attempt(check, partial(look, store), advice))
    findings += checks.shared_findings(registry)
    if deep:
        findings += examine_server_deep(store, registry.settings)
    return findings


def _server(store: ServerStore) -> str:
    """Whether it answers, and is one that can be worked with."""
    _ = store.engine.version  # refuses one that is too old
    (row,) = store.engine.run(_NEO4J_CHECK_SERVER)
    return f"Neo4j {row['version']} {row['edition']} at {store.place}"


def _registry(store: ServerStore) -> checks.Finding:
    try:
        if not store.exists:
            return checks.absent(store.place)
        detail = checks.describe_index(Neo4jIndex(store.engine))
    except checks.DAMAGE as error:
        advice = "upgrade waygraph, or see docs/storage.md, What may go wrong"
        return checks.Finding(check="registry", ok=False, detail=str(error) or type(error).__name__, advice=advice)
    return checks.Finding(check="registry", ok=True, detail=detail)


def _writer(store: ServerStore) -> str:
    """Whether one commits now, or died while it did."""
    (row,) = store.engine.run(_NEO4J_COMMIT_READ_MARK)
    if row["committing_ms"] >= DEAD_COMMIT_MS:
        seconds = row["committing_ms"] // 1000
        raise RegistryError(f"one died {seconds} s ago or more while it committed, and left its mark (label Commit)")
    return "no one commits" if row["committing_ms"] < 0 else "one is committing"


def _schema(store: ServerStore) -> str:
    missing = {migration.number for migration in MIGRATIONS} - seen_migrations(store.engine, store.place)
    version = Neo4jIndex(store.engine).state.schema_version
    if missing or version != SCHEMA_VERSION:
        without = f", without migration {', '.join(map(str, sorted(missing)))}" if missing else ""
        raise RegistryError(f"{version}{without}; this Waygraph knows {SCHEMA_VERSION}")
    return f"{version}; this Waygraph knows {SCHEMA_VERSION}"


def _constraints(store: ServerStore) -> str:
    if missing := labels_not_unique(store.engine):
        raise RegistryError(f"ids are not kept unique of {', '.join(missing)}")
    return "all there"


def _vector_indexes(store: ServerStore) -> str:
    by_owner = store.engine.version >= IN_INDEX_FILTERS
    dimension = Neo4jIndex(store.engine).state.dimension
    return _whole(faults(store.engine, vector_indexes(dimension, by_owner=by_owner)))


def _whole(differences: Mapping[str, str]) -> str:
    if differences:
        raise RegistryError("; ".join(f"{name} {fault}" for name, fault in differences.items()))
    return "all there, online"


def _search(store: ServerStore) -> str:
    """Whether every leg answers."""
    index = Neo4jIndex(store.engine)
    dimension = index.state.dimension
    vector = np.full(dimension, dimension**-0.5, dtype=np.float32) if dimension else None
    legs = {*TEXT_LEGS, "name", *(VECTOR_LEGS if dimension else ())}
    index.search(legs, vector, QueryText.of("a word"), 1, Scope())
    return f"{len(legs)} legs answer"


def examine_server_deep(store: ServerStore, settings: Settings) -> list[checks.Finding]:
    """Over one revision, whole; writers are not held up."""
    restore = checks.restore_advice(store.place)
    findings: list[checks.Finding] = []

    def look(session: GraphSession) -> list[checks.Finding]:
        findings[:] = [*checks.graph_findings(checks.Graph(session, settings), restore), *_index_findings(session)]
        return findings

    try:
        return store.read(look)
    except checks.DAMAGE as error:  # a statement that fails takes all that follow in its transaction along
        return [*findings, checks.Finding(check="graph", ok=False, detail=str(error), advice=restore)]


def _index_findings(session: GraphSession) -> Iterator[checks.Finding]:
    try:
        comparison = Comparison.read(session)
    except checks.DAMAGE as error:
        yield checks.Finding(check="index", ok=False, detail=str(error), advice=checks.REINDEX)
        return
    for check, find_faults, sound in (
        ("index of agents", comparison.agent_faults, f"{len(comparison.agents)}, as written anew"),
        ("index of tools", comparison.tool_faults, f"{len(comparison.tools)}, as written anew"),
        ("index of words", comparison.term_faults, f"{len(comparison.terms[0][1])}, as counted anew"),
        ("index of texts", lambda: _unheld(session), "all are found"),
    ):
        yield checks.attempt(check, checks.unless(find_faults, sound), checks.REINDEX)


def _unheld(session: GraphSession) -> Iterator[str]:
    for row in session.run(_NEO4J_CHECK_TEXTS):
        if row["held"] != row["wanted"]:
            yield f"{row['name']} holds {row['held']} texts, not {row['wanted']}"
