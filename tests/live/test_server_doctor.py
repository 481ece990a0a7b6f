"""The doctor of a registry on a real server: each fault that is planted is named, and each advice mends it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from neo4j import Driver, GraphDatabase

from tests.fake_openai import KEY, FakeOpenAI, fake_openai
from tests.neo4j_fixtures import wipe
from tests.neo4j_server import DATABASE, Target
from waygraph import Settings
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import DEAD_COMMIT_MS, GraphSession
from waygraph.registry.graph.neo4j import IN_INDEX_FILTERS
from waygraph.registry.index import neo4j_upkeep
from waygraph.registry.index.neo4j_index import UNIQUE, Index, renew_schema
from waygraph.registry.index.neo4j_index import faults as index_faults
from waygraph.registry.model.errors import EmbedderMismatch
from waygraph.registry.model.nouns import Filters, Query
from waygraph.registry.storage.integrity import findings as findings_of_graph
from waygraph.registry.storage.integrity.examine import examine, examine_at
from waygraph.registry.storage.integrity.findings import Finding
from waygraph.registry.storage.local_registry import LocalRegistry

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
AGENTS = ("quarry-sql", "harbor-git", "pigeon-mail")
QUICK = [
    *("server", "registry", "writer", "schema", "constraints", "text indexes", "vector indexes", "search"),
    *("sources", "embedder", "versions"),
]
DEEP = (
    "agent hashes|tool hashes|bundle hashes|owners|claims|call names|transitions|subjects|removed agents|vectors|"
    "vector keys|descriptions|taxonomies|toolsets|skill_links|index of agents|index of tools|"
    "index of words|index of texts"
).split("|")
DIMENSION = 48
"""Of the vectors that the endpoint of these tests gives."""
NOBODY = "bolt://127.0.0.1:9"


class World:
    """A registry of three agents on a server, an embedder that answers, and a way past both to the graph."""

    def __init__(self, target: Target, driver: Driver, embeddings: FakeOpenAI, cache: Path) -> None:
        user, password = target.auth or ("neo4j", "")
        self.uri, self.driver, self.embeddings = target.uri, driver, embeddings
        self.settings = Settings(
            embedder="openai:a-model", cache_dir=str(cache), neo4j_user=user, neo4j_password=password
        )
        self.environ = {"OPENAI_BASE_URL": embeddings.url, "OPENAI_API_KEY": KEY}
        self.is_sound = False

    def opened(self, **changed: Any) -> LocalRegistry:
        return LocalRegistry.open(self.uri, settings=replace(self.settings, **changed), environ=self.environ)

    def empty(self) -> None:
        """Of nodes. Indexes take seconds to make, and are not in the way."""
        self.is_sound = False
        self.tamper("MATCH (n) DETACH DELETE n")

    def fill(self) -> None:
        self.empty()
        with self.opened() as registry:
            self.ingest(registry)
            registry.operator.set("harbor-git", tags=["ours"], pinned=True)
            registry.operator.set("pigeon-mail", hidden=True)
        self.is_sound = True

    def ingest(self, registry: LocalRegistry) -> None:
        for name in AGENTS:
            for manifest in read_path(str(CATALOG / f"{name}.yaml"), self.settings):
                sync(registry, manifest)

    def tamper(self, *statements: str, **params: object) -> None:
        """Changes the graph behind the registry's back."""
        for statement in statements:
            self.driver.execute_query(statement, params, database_=DATABASE)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def look(self, *, deep: bool = False) -> dict[str, Finding]:
        """The findings by check."""
        findings = examine_at(self.uri, deep=deep, settings=self.settings, environ=self.environ)
        assert len({finding.check for finding in findings}) == len(findings)
        return {finding.check: finding for finding in findings}

    def vector_indexes(self) -> list[str]:
        rows = self.driver.execute_query(
            "SHOW INDEXES YIELD name, type WHERE type = 'VECTOR' RETURN name ORDER BY name", database_=DATABASE
        ).records
        return [row["name"] for row in rows]


@pytest.fixture(scope="module")
def world(neo4j_target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with (
        fake_openai() as embeddings,
        GraphDatabase.driver(neo4j_target.uri, auth=neo4j_target.auth, notifications_min_severity="OFF") as driver,
    ):
        wipe(driver)
        yield World(neo4j_target, driver, embeddings, tmp_path_factory.mktemp("cache"))
        wipe(driver)


@pytest.fixture
def bare(world: World) -> World:
    """An empty database; in the end whatever the test leaves."""
    world.empty()
    return world


@pytest.fixture
def own(bare: World) -> World:
    """A sound registry; in the end whatever the test leaves."""
    bare.fill()
    bare.is_sound = False
    return bare


@pytest.fixture
def shared(world: World) -> Iterator[World]:
    """A sound registry, which the test leaves sound."""
    if not world.is_sound:
        world.fill()
    world.is_sound = False
    yield world
    world.is_sound = faults(world.look()) == set()


def faults(findings: dict[str, Finding]) -> set[str]:
    """The checks that failed; each must say what it saw and what to do, in one line."""
    unwell = {check: finding for check, finding in findings.items() if not finding.ok}
    for finding in unwell.values():
        assert finding.detail
        assert finding.advice
        assert "\n" not in finding.detail + finding.advice
    return set(unwell)


def test_a_sound_registry_is_well(shared: World, neo4j_target: Target) -> None:
    """Every check of both kinds is there and passes, with nothing to advise; nothing is changed by it."""
    with shared.opened() as registry:
        before = registry.status()
        findings = shared.look(deep=True)
        assert registry.status() == before
    assert faults(findings) == set()
    assert list(findings) == [*QUICK, *DEEP]
    assert all(finding.detail for finding in findings.values())
    assert not any(finding.advice for finding in findings.values())
    assert neo4j_target.version in findings["server"].detail
    assert "3 agents" in findings["registry"].detail


def test_every_check_is_a_line_of_the_command(
    shared: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shared.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WAYGRAPH_NEO4J_PASSWORD", shared.settings.neo4j_password)
    monkeypatch.setenv("WAYGRAPH_CACHE_DIR", shared.settings.cache_dir)
    assert main(["--registry", shared.uri, "doctor", "--deep", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [finding["check"] for finding in told["findings"]] == [*QUICK, *DEEP, "files", "servers"]
    assert main(["--registry", shared.uri, "doctor"]) == 0


def test_a_server_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    findings = examine_at(NOBODY, deep=True, settings=Settings(), environ={})
    assert time.monotonic() - started < 25, "less than the driver tries again by itself"
    assert [finding.check for finding in findings] == ["server", "versions"]
    assert faults({finding.check: finding for finding in findings}) == {"server"}
    assert "does not answer" in findings[0].detail
    assert main(["--registry", NOBODY, "doctor", "--json"]) == 1
    assert [told["ok"] for told in json.loads(capsys.readouterr().out)["findings"]] == [False, True, True, True]


def test_no_registry(bare: World) -> None:
    findings = bare.look(deep=True)
    assert list(findings) == ["server", "registry", "versions"]
    assert faults(findings) == {"registry"}
    assert "waygraph ingest" in findings["registry"].advice


def test_a_newer_schema_and_a_foreign_graph(bare: World) -> None:
    bare.tamper("CREATE (:Agent {id: 'somebody else'})")
    assert "holds Agent of something else" in bare.look()["registry"].detail
    bare.tamper("CREATE (:Migration {id: '99'})")
    assert "newer Waygraph" in bare.look()["registry"].detail


def test_texts_of_an_unknown_form(own: World) -> None:
    own.tamper("MATCH (r:Registry) SET r.texts = 'rhymed'")
    assert own.look()["registry"].detail == "texts of the form 'rhymed' are not known"


def test_a_registry_without_vectors_or_agents_is_well(bare: World) -> None:
    for agents in ([], [{"id": "bare"}]):
        (Path(bare.settings.cache_dir) / "bare.json").write_text(json.dumps({"waygraph": 1, "agents": agents}))
        with bare.opened(embedder="none") as registry:
            for manifest in read_path(str(Path(bare.settings.cache_dir) / "bare.json"), registry.settings):
                sync(registry, manifest)
            assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []


def test_a_writer_that_died_while_it_committed(shared: World) -> None:
    """Its mark is found when it is too old for a living writer; any write takes it away."""
    shared.tamper("CREATE (:Commit {id: 'commit', token: 'dead', since: timestamp()})")
    assert shared.look()["writer"].detail == "one is committing"
    shared.tamper("MATCH (mark:Commit) SET mark.since = timestamp() - $ms", ms=DEAD_COMMIT_MS + 1000)
    findings = shared.look(deep=True)
    assert faults(findings) == {"writer"}
    assert "any write" in findings["writer"].advice
    with shared.opened() as registry:
        shared.ingest(registry)
    assert faults(shared.look()) == set()


def test_a_migration_that_is_not_recorded(shared: World) -> None:
    shared.tamper("MATCH (m:Migration) DETACH DELETE m", "CREATE (:Migration {id: '0'})")
    assert "without migration 1" in shared.look()["schema"].detail
    with shared.opened() as registry:
        shared.ingest(registry)
    assert faults(shared.look()) == set()


def test_constraints_that_are_gone(shared: World) -> None:
    shared.tamper(*(f"DROP CONSTRAINT {label.lower()}_id" for label in UNIQUE))
    findings = shared.look()
    assert faults(findings) == {"constraints"}
    assert ", ".join(sorted(UNIQUE)) in findings["constraints"].detail
    mend(shared, findings["constraints"])


def whitespace(name: str, pattern: str, indexed: str, analyzer: str = "whitespace") -> str:
    return f"CREATE FULLTEXT INDEX {name} FOR (n:{pattern}) ON EACH [n.{indexed}] " + (
        f"OPTIONS {{indexConfig: {{`fulltext.analyzer`: '{analyzer}'}}}}"
    )


def vectors(name: str, label: str, dimension: int, quantized: str = "") -> str:
    config = f"`vector.dimensions`: {dimension}, `vector.similarity_function`: 'cosine'{quantized}"
    return f"CREATE VECTOR INDEX {name} FOR (n:{label}) ON n.embedding OPTIONS {{indexConfig: {{{config}}}}}"


AGENT_VECTORS, CAPABILITY_VECTORS = f"agent_vector_{DIMENSION}", f"capability_vector_{DIMENSION}"
TEXT_FAULTS = [
    {
        "DROP INDEX agent_text": "agent_text is missing",
        whitespace(
            "capability_text", "Capability", "index_terms", "english"
        ): "fulltext.analyzer english, not whitespace",
        whitespace("name", "Agent", "index_names"): "name has the labels ['Agent'], not ['Agent', 'Tool']",
    },
    {
        "CREATE INDEX agent_text FOR (n:Agent) ON (n.index_terms)": "agent_text has the kind RANGE, not FULLTEXT",
        whitespace("capability_text", "Capability", "id"): "the properties ['id'], not ['index_terms']",
        "DROP INDEX name": "name is missing",
    },
]
VECTOR_FAULTS = [
    {
        f"DROP INDEX {AGENT_VECTORS}": f"{AGENT_VECTORS} is missing",
        vectors(CAPABILITY_VECTORS, "Capability", DIMENSION): "has quantized True, not False",
    },
    {
        vectors(AGENT_VECTORS, "Agent", 12): f"has vector.dimensions 12, not {DIMENSION}",
        f"DROP INDEX {CAPABILITY_VECTORS}": f"{CAPABILITY_VECTORS} is missing",
    },
]


@pytest.mark.parametrize(
    ("check", "planted"),
    [*(("text indexes", faulty) for faulty in TEXT_FAULTS), *(("vector indexes", faulty) for faulty in VECTOR_FAULTS)],
)
def test_indexes_that_are_not_as_they_should_be(shared: World, check: str, planted: dict[str, str]) -> None:
    """Missing, of another kind, on something else, or not exact: each is named; a reindex makes them anew."""
    for statement in planted:
        name = statement.split()[statement.split().index("INDEX") + 1]
        shared.tamper(f"DROP INDEX {name}")
        if not statement.startswith("DROP"):
            shared.tamper(statement)
    findings = shared.look()
    assert check in faults(findings)
    assert [told for told in planted.values() if told not in findings[check].detail] == []
    mend(shared, findings[check])


def test_an_index_that_cannot_search_by_owner(shared: World) -> None:
    """One that an earlier release made stays as it was when the server is upgraded to one that filters in the index."""
    with shared.opened() as registry:
        if cast("Any", registry.store).engine.version < IN_INDEX_FILTERS:
            pytest.skip("this release does not filter in the index")
    exact = ", `vector.quantization.type`: 'none'"
    shared.tamper(f"DROP INDEX {AGENT_VECTORS}", vectors(AGENT_VECTORS, "Agent", DIMENSION, exact))
    findings = shared.look()
    assert faults(findings) == {"vector indexes"}
    assert "['embedding', 'index_owner']" in findings["vector indexes"].detail
    with shared.opened() as registry:
        asked = Query(text="a SQL query", filters=Filters(agent_ids=("quarry-sql",)))
        assert [match.agent.id for match in registry.route(asked).matches] == ["quarry-sql"]
    mend(shared, findings["vector indexes"])


def mend(world: World, finding: Finding) -> None:
    """Takes the advice, and sees that all is well then."""
    assert "`waygraph reindex`" in finding.advice
    with world.opened() as registry:
        registry.reindex()
        assert registry.route("a SQL query").matches
    assert faults(world.look(deep=True)) == set()


def test_another_embedder(shared: World) -> None:
    shared.tamper("MATCH (r:Registry) SET r.was = r.embedder, r.embedder = 'onnx:other@abc'")
    findings = shared.look()
    shared.tamper("MATCH (r:Registry) SET r.embedder = r.was REMOVE r.was")
    assert faults(findings) == {"embedder"}
    assert "onnx:other@abc" in findings["embedder"].detail


TOOL = "quarry-sql/run_query"
ON_TOOL = f"MATCH (t:Tool {{id: '{TOOL}'}}) "
ON_AGENT = "MATCH (a:Agent {id: 'quarry-sql'}) "
GRAPH_FAULTS = {
    "agent hashes": ("MATCH (a:Agent {id: 'pigeon-mail'}) SET a.description = 'other'", "pigeon-mail"),
    "tool hashes": (ON_TOOL + "SET t.input_schema = '{}'", TOOL),
    "bundle hashes": ("MATCH (t:Tool {id: 'pigeon-mail/send-message'}) DETACH DELETE t", "pigeon-mail"),
    "owners": ("MATCH (:Agent)-[o:OWNS]->(:Tool {id: 'quarry-sql/explain_plan'}) DELETE o", "has no owner"),
    "claims": (
        "MATCH (:Source)-[c:CLAIMS]->(:Agent {id: 'quarry-sql'}) DELETE c",
        "quarry-sql is claimed by no source",
    ),
    "call names": (
        "MATCH (t:Tool {id: 'harbor-git/list_commits'}) SET t.call_name = 'quarry-sql__run_query'",
        "is of 2 tools",
    ),
    "transitions": (
        "MATCH (a:Agent {id: 'harbor-git'}) MATCH (b:Agent {id: 'quarry-sql'}) "
        "CREATE (a)-[:FOLLOWED_BY {before: '', count: 1.0, last_at: 'once'}]->(b)",
        "harbor-git → quarry-sql",
    ),
    "subjects": ("MATCH (:Setting)-[of:OF]->(:Agent) DELETE of", "edges of changes and settings for"),
    "removed agents": ("MATCH (s:Setting {id: 'harbor-git'}) SET s.removed = true", "harbor-git"),
    "vectors": (ON_AGENT + "SET a.embedding = null", "quarry-sql has none"),
    "vector keys": (
        "MATCH (t:Tool {id: 'harbor-git/create_branch'}) SET t.vector_key = 'x'",
        "harbor-git/create_branch",
    ),
}


def test_a_changed_graph(own: World) -> None:
    """Records that were changed, lost or doubled behind the registry's back are named by the check made for each."""
    own.tamper(*(statement for statement, _ in GRAPH_FAULTS.values()))
    findings = own.look(deep=True)
    assert set(GRAPH_FAULTS) <= faults(findings)
    for check, (_, named) in GRAPH_FAULTS.items():
        assert named in findings[check].detail, check


INDEXED_FAULTS = {
    "index of agents": {
        ON_AGENT
        + "SET a.index_terms = 'x', a.index_names = 'x', a.index_record = '{}', a.index_owner = null, a:Capability": (
            "quarry-sql (index_owner, index_record, index_terms, index_names, capability)"
        ),
        "MATCH (a:Agent {id: 'harbor-git'}) SET a.index_tags = ['x'], a.index_pinned = false REMOVE a:Apart": (
            "harbor-git (index_tags, index_pinned, apart)"
        ),
        "MATCH (a:Agent {id: 'pigeon-mail'}) SET a.index_groups = ['x'], a.index_hidden = false": (
            "pigeon-mail (index_groups, index_hidden)"
        ),
    },
    "index of tools": {
        "MATCH (t:Tool {id: 'quarry-sql/run_query'}) SET t.index_terms = null, t.index_owner = 'harbor-git'": (
            "quarry-sql/run_query (index_owner, index_terms)"
        ),
        "MATCH (t:Tool {id: 'quarry-sql/explain_plan'}) REMOVE t:Capability": "quarry-sql/explain_plan (capability)",
    },
    "index of words": {
        "MATCH (t:Term {id: '*'}) SET t.agents = 7": "'*' is counted in 7 agents and",
        "CREATE (:Term {id: 'nowhere', agents: 1, capabilities: 0})": "'nowhere' is counted in 1 agents",
        "MATCH (t:Term {id: 'sql'}) DELETE t": "'sql' is counted in 0 agents and 0 capabilities, not",
    },
}


@pytest.mark.parametrize("check", INDEXED_FAULTS)
def test_what_is_indexed_differs_from_the_graph(shared: World, check: str) -> None:
    """Every property and label that a search goes by is compared with what would be written anew; that mends it."""
    planted = INDEXED_FAULTS[check]
    shared.tamper(*planted)
    findings = shared.look(deep=True)
    assert faults(findings) - {"search", "index of texts"} == {check}
    assert [told for told in planted.values() if told not in findings[check].detail] == []
    mend(shared, findings[check])


def test_a_reindex_takes_the_former_indexes_away(own: World) -> None:
    """To another dimension and to none; who insists on the former embedder hears which one it is now."""
    assert own.vector_indexes() == [AGENT_VECTORS, CAPABILITY_VECTORS]
    with own.opened() as insisting, own.opened(embedder="") as writer:
        assert insisting.route("a SQL query").matches
        writer.reindex(embedder="openai:a-model?dimension=24")
        assert own.vector_indexes() == ["agent_vector_24", "capability_vector_24"]
        with pytest.raises(EmbedderMismatch, match="made by openai:a-model@24"):
            insisting.route("a SQL query")
        assert [finding for finding in examine(writer, deep=True) if not finding.ok] == []
        writer.reindex(embedder="none")
        assert own.vector_indexes() == []
        assert writer.route("a SQL query").matches
        assert [finding for finding in examine(writer, deep=True) if not finding.ok] == []


def test_a_former_index_in_an_emptied_database_is_not_in_the_way(own: World) -> None:
    """Nodes were deleted, indexes not: a new registry with another embedder is searched by its own."""
    with own.opened(embedder="") as registry:
        registry.reindex(embedder="openai:a-model?dimension=24")
    own.fill()
    assert own.vector_indexes() == [AGENT_VECTORS, CAPABILITY_VECTORS]
    assert faults(own.look(deep=True)) == set()


def test_readers_are_not_disturbed_by_a_reindex(own: World) -> None:
    """With the registry's own embedder, whichever that is, they route on while it is changed to and fro."""
    with own.opened(embedder="") as writer, own.opened(embedder="") as reader, asked_on(reader) as errors:
        for dimension in (24, 36, 48):
            writer.reindex(embedder=f"openai:a-model?dimension={dimension}")
        assert reader.route("a SQL query").matches
    assert errors == []


def test_an_index_that_comes_while_it_is_missed(own: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search met no index; when it looks for what is wrong with it, a writer has made it: it searches once more."""

    def look_later(session: GraphSession, wanted: tuple[Index, ...]) -> dict[str, str]:
        monkeypatch.setattr("waygraph.registry.index.neo4j_index.faults", index_faults)
        store = cast("Any", registry.store)
        renew_schema(store.engine, DIMENSION, by_owner=store.engine.version >= IN_INDEX_FILTERS)
        own.tamper("CALL db.awaitIndexes(60)")
        assert index_faults(session, wanted) == {}
        return {}

    with own.opened() as registry:
        found = registry.route("a SQL query").matches
        own.tamper(f"DROP INDEX {AGENT_VECTORS}")
        monkeypatch.setattr("waygraph.registry.index.neo4j_index.faults", look_later)
        assert registry.route("a SQL query").matches == found
    assert own.vector_indexes() == [AGENT_VECTORS, CAPABILITY_VECTORS]


@contextmanager
def asked_on(registry: LocalRegistry) -> Iterator[list[Exception]]:
    """A thread that routes all the while; the errors that it saw."""
    errors: list[Exception] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            try:
                assert registry.route("a SQL query").matches
            except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at in the end
                errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield errors
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("module", "failing"), [(neo4j_upkeep, "_NEO4J_CHECK_INDEXED_AGENTS"), (findings_of_graph, "_CHECK_ORPHANS")]
)
def test_a_check_that_fails_is_a_finding(
    shared: World, monkeypatch: pytest.MonkeyPatch, module: ModuleType, failing: str
) -> None:
    """The doctor itself never raises for what is wrong with the registry."""
    monkeypatch.setattr(module, failing, replace(getattr(module, failing), neo4j_text="RETURN 1 / 0"))
    findings = shared.look(deep=True)
    assert any("/ by zero" in findings[check].detail for check in faults(findings))
