"""Cypher that a stranger typed, on a real Neo4j: what it may read, and that it neither harms nor leaves the graph."""

import contextlib
import io
import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from subprocess import Popen
from typing import Any

import pytest
from neo4j import Driver, GraphDatabase

from benchmarks.neo4j_server import Neo4jServer, start_server
from tests.attacks import FILES_AND_NETWORK, REFUSED, REFUSED_ON_A_SERVER, WRITES
from tests.bombs import ON_A_SERVER
from tests.contract.test_cypher_sandbox import READS as PLAIN_READS
from tests.docs.pages import ROOT
from tests.neo4j_fixtures import neo4j_needed, selected_releases
from tests.neo4j_server import DATABASE
from waygraph import Settings
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.neo4j import Neo4jEngine
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.graph.user_cypher import neo4j_runner, sandbox
from waygraph.registry.graph.user_cypher.allow_list import NEO4J, check_read_only, tokens_of
from waygraph.registry.graph.user_cypher.neo4j_worker import check_plan
from waygraph.registry.model.errors import (
    CypherBusy,
    CypherError,
    CypherFailed,
    CypherLimit,
    CypherRefused,
    RegistryError,
    RegistryNotFound,
    ServerRefused,
    ServerUnavailable,
)
from waygraph.registry.registry import Registry

PASSWORD = "correct-horse-battery"  # noqa: S105 - of a server that lives as long as these tests
SETTINGS = Settings(neo4j_password=PASSWORD, cypher_timeout_s=20.0, cypher_memory_mib=256)
HURRIED = replace(SETTINGS, cypher_timeout_s=2.0)


@pytest.fixture(scope="module", params=list(selected_releases().values()), ids=list(selected_releases()))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neo4jServer]:
    """One of our own: these tests bring it down."""
    folder = tmp_path_factory.mktemp("neo4j")
    with neo4j_needed(), start_server(request.param, folder, password=PASSWORD) as started:
        yield started


@pytest.fixture(scope="module")
def driver(server: Neo4jServer) -> Iterator[Driver]:
    with GraphDatabase.driver(server.uri, auth=server.auth) as opened:
        yield opened


@pytest.fixture(scope="module")
def registry(server: Neo4jServer) -> Iterator[Registry]:
    with opened(server) as filled:
        with pytest.raises(RegistryNotFound):  # nobody reads through us what is no registry
            filled.operator.cypher("RETURN 1")
        for manifest in read_path(str(ROOT / "examples" / "catalog"), Settings()):
            sync(filled, replace(manifest, source="catalog"), texts="plain")
        yield filled


@pytest.fixture(scope="module")
def hurried(server: Neo4jServer, registry: Registry) -> Iterator[Registry]:
    """The same registry, with little time for a statement."""
    with opened(server, HURRIED) as other:
        yield other


def opened(server: Neo4jServer, settings: Settings = SETTINGS) -> Registry:
    return Registry.open(server.uri, embedder="none", settings=settings, environ={})


@pytest.fixture(scope="module")
def untouched(driver: Driver, registry: Registry) -> list[Any]:
    """Everything as it is before the first attack."""
    return everything(driver)


def everything(driver: Driver) -> list[Any]:
    return [
        [r.values() for r in driver.execute_query(statement, database_=database).records]  # pyright: ignore
        for statement, database in (
            ("MATCH (n) RETURN elementId(n) AS id, labels(n), properties(n) ORDER BY id", DATABASE),
            ("MATCH ()-[r]->() RETURN elementId(r) AS id, type(r), properties(r) ORDER BY id", DATABASE),
            ("SHOW INDEXES YIELD name, labelsOrTypes, properties ORDER BY name", DATABASE),
            ("SHOW CONSTRAINTS YIELD name ORDER BY name", DATABASE),
            ("SHOW USERS YIELD user, suspended", "system"),
            ("SHOW DATABASES YIELD name, currentStatus ORDER BY name", "system"),
        )
    ]


def error_of(registry: Registry, statement: str) -> CypherError:
    """How the statement fails, in one line that holds no secret and no address."""
    port = registry.store.place.rpartition(":")[2].partition("/")[0]
    with pytest.raises(CypherError) as caught:
        registry.operator.cypher(statement)
    told = str(caught.value)
    assert not [secret for secret in (PASSWORD, "127.0.0.1", port) if secret in told]
    assert len(told.splitlines()) == 1
    return caught.value


READS: list[tuple[str, object]] = [
    ("MATCH (a:Agent {id: $agent}) RETURN a {.id, n: size([(a)-[:OWNS]->(t) | t.id])}", {"id": "bureau-fx", "n": 4}),
    ("MATCH (a:Agent|Source)((x)-[:CLAIMS]->(y)){0,1}(z) RETURN count(a)", 73),
    ("CALL `db`.`relationshipTypes`() YIELD relationshipType AS r WITH r ORDER BY r RETURN collect(r)[0]", "CLAIMS"),
    ("CALL db.index.fulltext.queryNodes('name', 'bureaufx') YIELD node RETURN node.id", "bureau-fx"),
    ("CALL db.schema.visualization() YIELD nodes RETURN size(nodes) > 4", True),
    (
        "RETURN [date.truncate('month', date('2026-03-02')), duration('P1DT1S'), vector.similarity.cosine([1], [1])]",
        ["2026-03-01", {"months": 0, "days": 1, "nanos": 1_000_000_000}, 1.0],
    ),
    (
        "RETURN [datetime('2026-01-01T10:00:00Z'), time('10:00'), point({x: 1, y: 2}), 1.0 / 0.0, 0.0 / 0.0]",
        ["2026-01-01T10:00:00+00:00", "10:00:00+00:00", [1.0, 2.0], "Infinity", "NaN"],
    ),
    ("RETURN 'LOAD CSV; CREATE (n) // apoc.load.json()'", "LOAD CSV; CREATE (n) // apoc.load.json()"),
]


@pytest.mark.parametrize(("statement", "first"), READS)
def test_a_read_gives_its_rows(statement: str, first: object, registry: Registry) -> None:
    """What only reads is answered as the server answers it, in JSON's types."""
    result = registry.operator.cypher(statement, {"agent": "bureau-fx"})
    assert result.rows[0][0] == first


def test_nodes_edges_and_paths_are_told_as_of_a_file(registry: Registry, tmp_path: Path) -> None:
    """The same statement on both engines gives the same maps, but for ids and what only a server keeps."""
    statement = "MATCH p = (a:Agent {id: 'bureau-fx'})-[r:OWNS]->(t:Tool {name: 'list'}) RETURN a, r, p"
    with Registry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as embedded:
        for manifest in read_path(str(ROOT / "examples" / "catalog"), Settings()):
            sync(embedded, manifest)
        ours, theirs = (json.loads(json.dumps(one.operator.cypher(statement).rows)) for one in (embedded, registry))
    agent, edge, _ = theirs[0]
    assert edge["source"] == agent["id"]
    assert without_ids(ours) == without_ids(theirs)


def without_ids(value: Any) -> Any:
    """Entities without their ids, and without what only a server keeps."""
    if isinstance(value, list):
        return [without_ids(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {key: part for key, part in value.items() if not key.startswith("index_")}
    if "properties" in kept:
        kept = {key: part for key, part in kept.items() if key not in ("id", "source", "target")}
        kept["labels"] = [label for label in kept.get("labels", ()) if label not in ("Capability", "Apart")]
    return {key: without_ids(part) for key, part in kept.items()}


def test_rows_beyond_the_limit_are_neither_told_nor_made(server: Neo4jServer, registry: Registry) -> None:
    """At most `cypher_max_rows` rows come back, at once, and `truncated` says whether there were more."""
    with opened(server, replace(SETTINGS, cypher_max_rows=4)) as short:
        whole = short.operator.cypher("UNWIND range(1, 4) AS x RETURN x")
        cut = short.operator.cypher("UNWIND range(1, 1000000000000) AS x RETURN x, 'more'")
    assert (whole.rows, whole.truncated) == (((1,), (2,), (3,), (4,)), False)
    assert (cut.columns, len(cut.rows), cut.truncated) == (("x", "'more'"), 4, True)
    assert cut.elapsed_ms < 1_000 * SETTINGS.cypher_timeout_s


def test_an_answer_beyond_sixteen_mebibytes_is_cut_or_refused(registry: Registry) -> None:
    """Rows stop where the answer grows too large; one row too large is an error that says so."""
    megabyte = "reduce(s = 'x', i IN range(1, 20) | s + s)"
    cut = registry.operator.cypher(f"UNWIND range(1, 40) AS i RETURN {megabyte} AS s")
    assert (len(cut.rows), cut.truncated) == (15, True)
    with pytest.raises(CypherLimit, match="larger than 16 MiB"):
        registry.operator.cypher(f"WITH {megabyte} AS s RETURN [i IN range(1, 20) | s] AS large")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("MATCH (n)\nRETURN n.x +", "Invalid input '': expected an expression (line 2, column 13)"),
        ("RETURN sise('x')", "Unknown function 'sise' (line 1, column 8)"),
        ("RETURN $absent", "Expected parameter(s): absent"),
        ("RETURN datetime({year: 99999})", "Record contains broken data at 0 ('datetime({year: 99999})')"),
    ],
)
def test_the_servers_reason_is_told_in_one_line(statement: str, message: str, registry: Registry) -> None:
    """A failure says what the server said and where, as counted in the statement that was typed."""
    assert str(error_of(registry, statement)) == message


def test_parameters_must_be_json_of_a_bounded_size(registry: Registry) -> None:
    """What JSON cannot carry, too much of it, and what no engine can take is refused."""
    for value in ({1, 2}, "x" * 5_000_000, 2**70):
        with pytest.raises(CypherRefused, match="parameters"):
            registry.operator.cypher("RETURN $x", {"x": value})


def test_what_is_more_than_a_read_is_refused_before_the_server_sees_it(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever writes, reads files, asks the network or looks at the server is refused, and no worker is started."""
    monkeypatch.setattr(neo4j_runner, "start_worker", lambda *_: pytest.fail("a worker was started"))
    for attack in (*REFUSED.values(), *REFUSED_ON_A_SERVER.values()):
        assert isinstance(error_of(registry, attack), CypherRefused)


def fooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the first line had let everything pass."""
    monkeypatch.setattr(neo4j_runner, "check_read_only", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line", "more than read: LoadCSV"),
        ("CREATE (:Evil)", "more than read"),
        ("MATCH (a:Agent) CALL (a) { SET a.x = 1 } RETURN a", "more than read"),
        ("MATCH (a:Agent) CALL (a) { RETURN 1 AS x } IN TRANSACTIONS RETURN x", "more than read: Transaction"),
        ("CREATE INDEX evil FOR (n:Agent) ON (n.name)", "more than read"),
        ("CALL db.awaitIndexes(300)", "more than read: ProcedureCall"),
        ("SHOW TRANSACTIONS", "more than read: ShowTransactions"),
    ],
)
@pytest.mark.usefixtures("untouched")
def test_the_second_line_refuses_by_the_plan(
    attack: str, reason: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the first line fooled, the server's own plan tells, and nothing of the statement runs."""
    fooled(monkeypatch)
    error = error_of(registry, attack)
    assert isinstance(error, CypherRefused)
    assert reason in str(error)


@pytest.mark.parametrize("attack", ["CREATE (:Evil)", "DROP INDEX agent_text", "CALL db.createLabel('Evil')"])
@pytest.mark.usefixtures("untouched")
def test_the_third_line_is_the_servers(attack: str, server: Neo4jServer, registry: Registry) -> None:
    """With both checks gone, the transaction still has no right to write."""
    engine = Neo4jEngine.open(ServerLocation.parse(server.uri, DATABASE), SETTINGS)
    with pytest.raises(RegistryError, match="read access mode"), engine.begin_typed(5.0, {}) as transaction:
        list(transaction.run(attack, {})[1])
    engine.close()


MUTATED = [
    *WRITES,
    *FILES_AND_NETWORK,
    *(statement for statement, _ in PLAIN_READS * 2),
    "MATCH (a:Agent|Tool&!X) WHERE a.id =~ 'x.*' RETURN a ORDER BY a.id SKIP 1 LIMIT 2",
    "MATCH (a)((x)-[r:OWNS WHERE r.x > 1]->(y)){1,2}(b) RETURN [i IN x | i.id]",
    "RETURN date.truncate('month', date()) AS day UNION ALL CALL db.labels() YIELD label AS day RETURN day",
]


def mutations(seed: int, count: int) -> Iterator[str]:
    """Reads and writes cut and pasted at random; those that the first line lets pass."""
    dice = random.Random(seed)  # noqa: S311 - nothing secret
    texts = [text for statement in MUTATED if (text := words_of(statement))]
    words = sorted({word for text in texts for word in text} | {"`foreach`", "`count`", "insert", "*", "|", "{", "+"})
    for _ in range(count):
        text, other = list(dice.choice(texts)), dice.choice(texts)
        if dice.random() < 0.5:
            start, cut = dice.randrange(len(other)), dice.randrange(len(text) + 1)
            text[cut : cut + dice.randrange(3)] = other[start : start + dice.randrange(1, 12)]
        for _ in range(dice.randrange(3)):
            at = dice.randrange(len(text))
            text[at : at + dice.randrange(2)] = [dice.choice((dice.choice(words), f"`{text[at].strip('`')}`"))]
        with contextlib.suppress(CypherRefused):
            check_read_only(" ".join(text), max_chars=20_000, dialect=NEO4J)
            yield " ".join(text)


def words_of(statement: str) -> list[str]:
    """Nothing for a statement that cannot be cut into words."""
    try:
        return [token.text for token in tokens_of(statement)]
    except CypherRefused:
        return []


def test_nothing_that_passes_has_a_plan_that_does_more(server: Neo4jServer, registry: Registry) -> None:
    """The first line agrees with the server's parser: of 2,500 statements none passes whose plan does not only read."""
    engine = Neo4jEngine.open(ServerLocation.parse(server.uri, DATABASE), SETTINGS)
    planned = 0
    for statement in mutations(seed=11, count=2_500):
        with contextlib.suppress(RegistryError), engine.begin_typed(20.0, {}) as transaction:
            check_plan(transaction.plan(statement, {"x": 1, "rows": []}))
            planned += 1
    engine.close()
    assert planned > 120


@pytest.mark.parametrize("bomb", ON_A_SERVER.values(), ids=ON_A_SERVER)
@pytest.mark.usefixtures("untouched")
def test_what_has_no_end_is_ended(bomb: str, hurried: Registry, registry: Registry) -> None:
    """In time the asker gets one line that says why; no worker is left, and the server answers as before."""
    started = time.monotonic()
    error = error_of(hurried, bomb)
    assert time.monotonic() - started < 60
    assert isinstance(error, CypherLimit | CypherFailed)
    assert workers() == []
    assert eventually_answers(registry)


@pytest.mark.parametrize(
    "statement", ["RETURN reduce(s = 0, x IN range(1, 10000000000) | s + x)", "RETURN range(0, 0xFFFFFFFFF)"]
)
def test_a_list_that_is_plainly_too_long_is_refused(statement: str, registry: Registry) -> None:
    """Neo4j cannot be stopped in an expression, so a long range may only come as rows."""
    assert "behind UNWIND" in str(error_of(registry, statement))


def workers() -> list[str]:
    """Commands of the worker processes of these tests, where there is a /proc."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = command.read_bytes().decode(errors="replace")
            parent = int(command.with_name("stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if "neo4j_worker" in text and parent == os.getpid():
            found.append(text)
    return found


def eventually_answers(registry: Registry) -> bool:
    """Whether a plain statement is answered within 60 s: what was ended may take a moment to be gone."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return bool(registry.operator.cypher("RETURN 1").rows)
        except (CypherLimit, ServerUnavailable):  # the second: what was ended still holds the memory of all
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


def test_the_graph_is_what_it_was_before_all_attacks(untouched: list[Any], driver: Driver) -> None:
    """No node, edge, index, constraint, user or database has changed, come or gone."""
    assert everything(driver) == untouched


def test_what_the_server_cannot_stop_keeps_others_out(server: Neo4jServer, registry: Registry) -> None:
    """A statement that goes on in the server after its end: no other one is sent until it is gone."""
    endless = "WITH 1000000000000 AS n RETURN reduce(s = 0, x IN range(1, n) | s + x)"
    try:
        with opened(server, replace(SETTINGS, cypher_timeout_s=5.0)) as other:
            assert "ended after 5 s" in str(error_of(other, endless))
        assert "still at work on the server" in str(error_of(registry, "RETURN 1"))
        server.kill()
        with pytest.raises(ServerUnavailable) as caught:
            registry.operator.cypher("RETURN 1")
        assert PASSWORD not in str(caught.value)
    finally:
        server.restart()
    assert eventually_answers(registry)


def test_one_statement_too_many_is_told_to_come_again(
    server: Neo4jServer, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While as many as are allowed are at work no other one is sent; a worker that was killed gives its place back."""
    started: SimpleQueue[Popen[bytes]] = SimpleQueue()

    def start(script: Path, environment: dict[str, str]) -> Popen[bytes]:
        worker = sandbox.start_worker(script, environment)
        started.put(worker)
        return worker

    monkeypatch.setattr(neo4j_runner, "start_worker", start)
    settings = replace(SETTINGS, cypher_workers=1, cypher_wait_s=0.0, cypher_timeout_s=120.0)
    with opened(server, settings) as narrow, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(narrow.operator.cypher, ON_A_SERVER["rows"])
        worker = started.get(timeout=60)
        with pytest.raises(CypherBusy, match="allowed at a time, 1"):
            narrow.operator.cypher("RETURN 1")
        worker.kill()
        assert isinstance(asked.exception(timeout=60), CypherLimit)
        assert eventually_answers(narrow)
    assert eventually_answers(registry)


def sync_one(registry: Registry, folder: Path) -> None:
    (folder / "one.yaml").write_text("waygraph: 1\nagents: [{id: one, name: One, description: The first.}]\n")
    for manifest in read_path(str(folder / "one.yaml"), Settings()):
        sync(registry, manifest)


def test_the_worker_is_told_no_more_than_it_needs(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs to reach the server comes on its standard input, not in its environment or its command line."""
    monkeypatch.setenv("WAYGRAPH_SECRET", "hunter2")
    seen: list[tuple[Path, dict[str, str]]] = []

    def start(script: Path, environment: dict[str, str]) -> Any:
        seen.append((script, environment))
        return sandbox.start_worker(script, environment)

    monkeypatch.setattr(neo4j_runner, "start_worker", start)
    assert registry.operator.cypher("RETURN 1").rows == ((1,),)
    ((script, environment),) = seen
    assert script.name == "neo4j_worker.py"
    assert set(environment) <= {
        "TMPDIR", "MALLOC_ARENA_MAX", "RAYON_NUM_THREADS", "LD_LIBRARY_PATH", *neo4j_runner.CERTIFICATES,
    }  # fmt: skip
    assert not [value for value in environment.values() if value in ("hunter2", PASSWORD)]


def test_the_memory_limit_is_the_settings(server: Neo4jServer, registry: Registry) -> None:
    """A row that the worker has no room for ends it; the same row fits into more."""
    statement = "WITH 900000 AS n RETURN size([1]), [x IN range(1, n) | 'a'] AS row"
    with (
        opened(server, replace(SETTINGS, cypher_memory_mib=8)) as narrow,
        pytest.raises(CypherLimit, match="WAYGRAPH_CYPHER_MEMORY_MIB"),
    ):
        narrow.operator.cypher(statement)
    assert registry.operator.cypher(statement).rows[0][1] == ["a"] * 900_000


def test_a_statement_sees_what_was_just_written(server: Neo4jServer, registry: Registry, tmp_path: Path) -> None:
    sync_one(registry, tmp_path)
    assert registry.operator.cypher("MATCH (a:Agent {id: 'one'}) RETURN a.name").rows == (("One",),)
    registry.operator.forget(str(tmp_path / "one.yaml"))
    assert registry.operator.cypher("MATCH (a:Agent {id: 'one'}) RETURN a.name").rows == ()


def test_a_wrong_password_is_refused_and_not_told(server: Neo4jServer) -> None:
    with pytest.raises(ServerRefused) as caught:
        opened(server, replace(SETTINGS, neo4j_password="wrong-" + PASSWORD)).operator.cypher("RETURN 1")
    assert PASSWORD not in str(caught.value)


def test_the_command_asks_a_server(
    server: Neo4jServer, registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`waygraph cypher` prints rows of a server registry, and says in one line why a statement was refused."""
    monkeypatch.setenv("WAYGRAPH_NEO4J_PASSWORD", PASSWORD)
    asked = ["--registry", server.uri, "cypher"]
    assert main([*asked, "MATCH (a:Agent) RETURN a.id AS id ORDER BY id LIMIT 3"]) == 0
    assert capsys.readouterr().out.split() == ["id", "bazaar-lane", "bellringer-stocks", "bureau-fx"]
    assert main([*asked, "--json", "--param", "n=2", "RETURN $n + 1 AS x"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[3]]
    assert main([*asked, "MATCH (n) DETACH DELETE n"]) == 1
    assert "DETACH is refused" in capsys.readouterr().err


def test_the_command_goes_on_after_an_error(
    server: Neo4jServer, registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Statements from standard input run one after the other; a refused one is told, the next one answered."""
    typed = "LOAD CSV FROM 'x' AS y RETURN y;\nRETURN $x * 2 AS ten;\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    monkeypatch.setenv("WAYGRAPH_NEO4J_PASSWORD", PASSWORD)
    assert main(["--registry", server.uri, "cypher", "--param", "x=5"]) == 1
    told = capsys.readouterr()
    assert told.out.split() == ["ten", "10"]
    assert "LOAD" in told.err
