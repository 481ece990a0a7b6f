"""Cypher that a stranger typed, run for real over a copy of a graph: what it may read, and that it harms nothing."""

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import grafeo
import pytest

from tests.attacks import REFUSED
from tests.bombs import ENDLESS, OF_MEMORY
from waygraph.registry.graph.user_cypher import sandbox
from waygraph.registry.graph.user_cypher.allow_list import PROCEDURES, check_read_only, tokens_of
from waygraph.registry.graph.user_cypher.grafeo_worker import OPERATOR, READ_OPERATORS
from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces, run_read_only
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherError, CypherFailed, CypherLimit, CypherRefused
from waygraph.registry.model.settings import Settings

SETTINGS = Settings(cypher_timeout_s=30.0, cypher_memory_mib=256)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def graph_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    graph = grafeo.GrafeoDB(str(folder / "live.grafeo"))
    graph.create_property_index("id")
    for agent in ("ghost", "mailer", "weather"):
        graph.execute_cypher(
            "CREATE (a:Agent {id: $id, name: $id, tags: ['x', 'y'], embedding: $vector})",
            {"id": agent, "vector": [0.5] * 384},
        )
    for tool in ("mailer/send", "mailer/search", "weather/today", "weather/tomorrow"):
        graph.execute_cypher(
            "MATCH (a:Agent {id: $agent}) CREATE (a)-[:OWNS {since: 2024}]->(t:Tool {id: $id, agent_id: $agent})",
            {"agent": tool.split("/", maxsplit=1)[0], "id": tool},
        )
    graph.save(str(folder / "graph.grafeo"))
    graph.close()
    return folder / "graph.grafeo"


@pytest.fixture(autouse=True)
def the_copy_stays_as_it_is(graph_copy: Path) -> Iterator[None]:
    """Holds for every test here: no byte of the copy changes, and no file appears beside it."""

    def state() -> tuple[str, list[str]]:
        return hashlib.sha256(graph_copy.read_bytes()).hexdigest(), sorted(os.listdir(graph_copy.parent))

    before = state()
    yield
    assert state() == before


def run(
    graph_copy: Path, statement: str, params: Mapping[str, object] | None = None, settings: Settings = SETTINGS
) -> CypherResult:
    return run_read_only(graph_copy, statement, params or {}, settings, CypherPlaces(settings))


def run_unchecked(graph_copy: Path, statement: str, settings: Settings = SETTINGS) -> CypherResult:
    """As if the first line had been fooled."""
    request = sandbox._request(graph_copy, statement, {}, settings)
    return sandbox.result_of(sandbox.ask_worker(sandbox._start, request, settings, CypherPlaces(settings)), settings)


READS: list[tuple[str, object]] = [
    ("MATCH (a:Agent) RETURN count(a)", 3),
    ("MATCH (t:Tool) RETURN count(*)", 4),
    ("MATCH (a:Agent) WHERE a.id = 'mailer' RETURN a.name", "mailer"),
    ("MATCH (a:Agent {id: 'mailer'}) RETURN a.id AS load", "mailer"),
    ("match (a:Agent) where a.id starts with 'm' return a.id", "mailer"),
    ("MATCH (a:Agent) WHERE a.id ENDS WITH 'er' RETURN count(a)", 2),
    ("MATCH (t:Tool) WHERE t.id CONTAINS 'send' RETURN t.id", "mailer/send"),
    ("MATCH (a:Agent) WHERE a.id =~ 'w.*' RETURN a.id", "weather"),
    ("MATCH (a:Agent) WHERE a.id IN ['mailer', 'x'] RETURN a.id", "mailer"),
    ("MATCH (a:Agent) WHERE NOT a.id IN ['mailer', 'weather'] RETURN a.id", "ghost"),
    ("MATCH (a:Agent) WHERE a.load IS NULL AND a.id IS NOT NULL RETURN count(a)", 3),
    ("MATCH (a:Agent) WHERE a.id = 'x' OR a.id = 'ghost' XOR false RETURN a.id", "ghost"),
    ("MATCH (a:Agent)-[:OWNS]->(t:Tool) RETURN count(t)", 4),
    ("MATCH (a:Agent)-[r:OWNS]->(t:Tool {id: 'mailer/send'}) RETURN r.since", 2024),
    ("MATCH (t:Tool)<-[:OWNS]-(a) WHERE t.id = 'mailer/send' RETURN a.id", "mailer"),
    ("MATCH (a:Agent)--(t) RETURN count(t)", 4),
    ("MATCH (a:Agent)-[:OWNS|CLAIMS]->(t) RETURN count(t)", 4),
    ("MATCH (a:Agent)-[:OWNS*1..2]->(t) RETURN count(t)", 4),
    ("MATCH (a {id: 'mailer'})-[*]-(t) RETURN count(t)", 2),
    ("MATCH p = (a {id: 'mailer'})-[:OWNS]->() RETURN length(p) LIMIT 1", 1),
    ("MATCH p = shortestPath((a:Agent {id: 'mailer'})-[*..3]-(t:Tool {id: 'mailer/send'})) RETURN length(p)", 1),
    ("MATCH (a:Agent), (t:Tool) RETURN count(*)", 12),
    ("OPTIONAL MATCH (x:Nothing) RETURN x", None),
    ("MATCH (a:Agent {id: 'ghost'}) OPTIONAL MATCH (a)-[:OWNS]->(t) RETURN t.id", None),
    ("MATCH (a:Agent) RETURN a.id ORDER BY a.id DESC LIMIT 1", "weather"),
    ("MATCH (a:Agent) RETURN a.id ORDER BY a.id ASC SKIP 1 LIMIT 1", "mailer"),
    ("MATCH (a:Agent) WITH a ORDER BY a.id LIMIT 1 RETURN a.id", "ghost"),
    ("MATCH (t:Tool) RETURN count(DISTINCT t.agent_id)", 2),
    ("MATCH (t:Tool) WITH DISTINCT t.agent_id AS id WHERE id <> 'mailer' RETURN id", "weather"),
    ("MATCH (a:Agent {id: 'mailer'})-->(t) WITH a, count(t) AS n WHERE n > 1 RETURN n", 2),
    ("MATCH (a:Agent {id: 'mailer'}) WITH * MATCH (a)-->(t) RETURN count(t)", 2),
    ("MATCH (a:Agent {id: 'mailer'}) RETURN size(a.tags)", 2),
    ("MATCH (a:Agent {id: 'mailer'}) RETURN a.tags[0]", "x"),
    ("UNWIND [1, 2, 3] AS x RETURN sum(x)", 6),
    ("UNWIND range(1, 4) AS x WITH x WHERE x > 1 RETURN collect(x)", [2, 3, 4]),
    ("UNWIND $rows AS row RETURN row.id", "first"),
    ("RETURN $x", 7),
    ("RETURN 1 + 2 * 3 - 4 % 3", 6),
    ("RETURN 2 ^ 3", 8.0),
    ("RETURN 0x1F", 31),
    ("RETURN 'CREATE (n) // no comment'", "CREATE (n) // no comment"),
    (r"RETURN 'it\'s'", "it's"),
    ('RETURN "a;b"', "a;b"),
    ("RETURN {a: 1, b: [2, {c: 'x'}]}", {"a": 1, "b": [2, {"c": "x"}]}),
    ("RETURN {`delete`: 1}", {"delete": 1}),
    ("RETURN {load: 1}.load", 1),
    ("WITH {insert: 2} AS m RETURN m.insert", 2),
    ("RETURN [x IN range(1, 5) WHERE x > 3 | x * 10]", [40, 50]),
    ("RETURN [1, 2, 3, 4][1..3]", [2, 3]),
    ("RETURN all(x IN [1, 2] WHERE x > 0) AND any(x IN [1] WHERE x = 1) AND none(x IN [1] WHERE x = 2)", True),
    ("RETURN reduce(s = 0, x IN [1, 2, 3] | s + x)", 6),
    ("RETURN CASE WHEN 1 = 2 THEN 'a' ELSE 'b' END", "b"),
    ("RETURN CASE 'x' WHEN 'x' THEN 'SET' ELSE null END", "SET"),
    ("RETURN coalesce(null, 'x')", "x"),
    ("RETURN toUpper('set')", "SET"),
    ("RETURN true XOR false", True),
    ("RETURN date('2024-02-29')", "2024-02-29"),
    ("RETURN 0.0 / 0.0", "NaN"),
    ("RETURN 1.0 / 0.0", "Infinity"),
    (
        "MATCH (a:Agent {id: 'mailer'}) RETURN a {.id, .name, kind: 'x'}",
        {"id": "mailer", "name": "mailer", "kind": "x"},
    ),
    ("MATCH (a:Agent {id: 'mailer'}) RETURN size([(a)-[:OWNS]->(t) | t.id])", 2),
    ("MATCH (a:Agent) WHERE EXISTS { MATCH (a)-[:OWNS]->(:Tool) } RETURN count(a)", 2),
    ("MATCH (a:Agent) WHERE EXISTS { (a)-[:OWNS]->(:Tool) } RETURN count(a)", 2),
    ("MATCH (a:Agent) WHERE COUNT { (a)-[:OWNS]->() } = 0 RETURN a.id", "ghost"),
    ("MATCH (a:Agent) WHERE NOT (a)-[:OWNS]->() RETURN a.id", "ghost"),
    ("MATCH (n) WHERE n:Agent RETURN count(n)", 3),
    ("CALL { MATCH (a:Agent) RETURN a.id AS id UNION ALL MATCH (t:Tool) RETURN t.id AS id } RETURN count(id)", 7),
    ("MATCH (a:Agent {id: 'mailer'}) CALL (a) { MATCH (a)-->(t) RETURN count(t) AS n } RETURN n", 2),
    ("MATCH (a:Agent {id: 'mailer'}) CALL { WITH a MATCH (a)-->(t) RETURN count(t) AS n } RETURN n", 2),
    ("MATCH (a:Agent {id: 'x'}) RETURN a.id AS id UNION MATCH (a:Agent {id: 'ghost'}) RETURN a.id AS id", "ghost"),
    ("CALL db.labels() YIELD label WITH label WHERE label = 'Agent' RETURN label", "Agent"),
    ("CALL grafeo.pagerank({damping: 0.85}) YIELD node_id, score RETURN count(score)", 7),
    ("CALL grafeo.louvain() YIELD community_id RETURN count(DISTINCT community_id)", 3),
    ("MATCH (load:Agent) RETURN count(load.id)", 3),
    ("MATCH (`set`:Agent) RETURN count(`set`)", 3),
    ("MATCH (start {id: 'mailer'})-->(end) RETURN count(end)", 2),
    ("/* count */ MATCH (a:Agent) // all\n RETURN count(a);", 3),
    ("MATCH (a:Agent {id: 'mailer'}) RETURN cosine_similarity(a.embedding, a.embedding)", 1.0),
]


@pytest.mark.parametrize(("statement", "first"), READS)
def test_a_read_gives_its_rows(graph_copy: Path, statement: str, first: object) -> None:
    result = run(graph_copy, statement, {"x": 7, "rows": [{"id": "first"}]})
    assert result.rows[0][0] == (pytest.approx(first) if isinstance(first, float) else first)
    assert not result.truncated


def test_nodes_edges_and_paths_are_told_as_maps(graph_copy: Path) -> None:
    """A node tells labels and properties, an edge its type and ends, a vector only its length."""
    statement = (
        "MATCH p = (a:Agent {id: 'mailer'})-[r:OWNS]->(t:Tool {id: 'mailer/send'}) RETURN a, r, p, a.embedding AS e"
    )
    result = run(graph_copy, statement)
    node, edge, path, vector = json.loads(json.dumps(result.rows[0]))
    assert result.columns == ("a", "r", "p", "e")
    assert (node["labels"], node["properties"]["tags"]) == (["Agent"], ["x", "y"])
    assert (edge["type"], edge["source"], edge["properties"]) == ("OWNS", node["id"], {"since": 2024})
    assert path["nodes"][0] == node
    assert vector == node["properties"]["embedding"] == "<384 floats>"


def test_times_numbers_and_texts_arrive_as_json(graph_copy: Path) -> None:
    statement = "RETURN datetime('2024-01-01T10:00:00Z'), time('10:00'), duration('P1D'), '多👩‍🔧'"
    rows = run(graph_copy, statement).rows
    day = {"months": 0, "days": 1, "nanos": 0}
    assert rows == (("2024-01-01T10:00:00+00:00", "10:00:00+00:00", day, "多👩‍🔧"),)


def test_rows_beyond_the_limit_are_cut_and_told(graph_copy: Path) -> None:
    """At most `cypher_max_rows` rows come back, and `truncated` says whether there were more."""
    settings = Settings(cypher_max_rows=4)
    assert run(graph_copy, "MATCH (t:Tool) RETURN t.id", settings=settings).truncated is False
    cut = run(graph_copy, "UNWIND range(1, 5) AS x RETURN x", settings=settings)
    assert (cut.rows, cut.truncated) == (((1,), (2,), (3,), (4,)), True)


def test_an_answer_beyond_sixteen_mebibytes_is_cut_or_refused(graph_copy: Path) -> None:
    """Rows stop where the answer grows too large; one row too large is an error that says so."""
    double = "reduce(s = 'x', i IN range(1, {}) | s + s)"
    cut = run(graph_copy, f"UNWIND range(1, 40) AS i RETURN {double.format(20)} AS s")
    assert (len(cut.rows), cut.truncated) == (15, True)
    with pytest.raises(CypherLimit, match="larger than 16 MiB"):
        run(graph_copy, f"RETURN {double.format(25)} AS s")


def test_the_first_line_refuses_before_a_worker_starts(graph_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_start", lambda: pytest.fail("a worker was started"))
    for statement in REFUSED.values():
        with pytest.raises(CypherRefused):
            run(graph_copy, statement)


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("LOAD CSV FROM '/etc/passwd' AS x RETURN x", "LoadCsv"),
        ("/**/LOAD\n//\nCSV FROM '/etc/passwd' AS x RETURN x", "LoadCsv"),
        ("RETURN 1 AS x UNION LOAD CSV FROM '/etc/passwd' AS x RETURN x", "LoadCsv"),
        ("CREATE (n)", "Create"),
        ("CALL { CREATE (n) RETURN n } RETURN n", "Create"),
        ("MATCH (n) ſET n.x = 1", "SetProperty"),
        ("MATCH (n) `FOREACH` (x IN [1] | SET n.x = 1)", "SetProperty"),
        ("MATCH (n) DETACH DELETE n", "DeleteNode"),
        ("MATCH ()-[r]->() DELETE r", "DeleteEdge"),
        ("MATCH (n) REMOVE n:Agent", "RemoveLabel"),
        ("MATCH (n) SET n:Other", "AddLabel"),
        ("MERGE (n:Agent {id: 'x'})", "Merge"),
        ("PROFILE MATCH (n) DELETE n", "DeleteNode"),
    ],
)
def test_the_second_line_refuses_by_the_plan(graph_copy: Path, statement: str, operator: str) -> None:
    """Were the first line fooled, the worker would refuse a plan that does more than read."""
    with pytest.raises(CypherRefused, match=f"more than read: {operator}"):
        run_unchecked(graph_copy, statement)


@pytest.mark.parametrize("statement", ["CREATE INDEX i FOR (n:Agent) ON (n.name)", "DROP INDEX i", "SHOW INDEXES"])
def test_schema_commands_have_no_plan_and_never_run(graph_copy: Path, statement: str) -> None:
    with pytest.raises(CypherFailed, match="Schema commands"):
        run_unchecked(graph_copy, statement)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("LOAD CSV FROM '/etc/passwd' AS x RETURN x", "Too many open files"),
        ("CREATE (n:Agent)", "read-only transaction"),
        ("MATCH (n) SET n.x = 1", "read-only transaction"),
        ("CREATE INDEX i FOR (n:Agent) ON (n.name)", "read-only transaction"),
    ],
)
def test_the_third_line_holds_without_the_others(graph_copy: Path, statement: str, reason: str) -> None:
    """With both checks gone, the process still can open no file and the copy takes no write."""
    code = (
        "import sys, grafeo; from waygraph.registry.graph.user_cypher import grafeo_worker as w\n"
        "graph = grafeo.GrafeoDB.open_read_only(sys.argv[1]); w._close_the_door(256)\n"
        "graph.execute_cypher(sys.argv[2])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(graph_copy), statement],
        env={**os.environ, "TMPDIR": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert reason in ended.stderr
    assert "root:" not in ended.stdout + ended.stderr


def test_every_plan_of_a_read_is_known(graph_copy: Path) -> None:
    """The list of reading operators has no gap: no statement of these is refused by its plan."""
    for statement, _ in READS:
        run_unchecked(graph_copy, statement.replace("$x", "1").replace("$rows", "[{id: 1}]"))


def test_every_procedure_of_the_engine_was_judged(graph_copy: Path) -> None:
    """A procedure that a new release of the engine brings is not allowed until someone has looked at it."""
    rows = run(graph_copy, "CALL grafeo.procedures() YIELD name RETURN name").rows
    told = {tuple(str(name).lower().split(".")) for (name,) in rows}
    assert told == {name for name in PROCEDURES if name[0] == "grafeo"} - {("grafeo", "procedures")}


def mutations(seed: int, count: int) -> Iterator[str]:
    """Reads and writes cut and pasted at random, with words that are clauses, names or both."""
    dice = random.Random(seed)  # noqa: S311 - nothing secret
    writes = (
        "MATCH (n) SET n.x = 1, n += {a: 1} REMOVE n.y DETACH DELETE n",
        "MERGE (n:X {id: 1}) ON CREATE SET n.a = 1 RETURN n",
        "LOAD CSV WITH HEADERS FROM '/etc/passwd' AS x RETURN x",
        "MATCH (n) FOREACH (x IN [1] | SET n.y = 1 CREATE (m))",
        "CALL { MATCH (n) RETURN n UNION ALL CREATE (n) RETURN n } RETURN n",
        "MATCH (order) WITH * CREATE (limit) RETURN skip, end, contains, count, all",
    )
    texts = [
        [token.text for token in tokens_of(statement)] for statement in (*writes * 8, *(read for read, _ in READS))
    ]
    words = sorted(
        {word for text in texts for word in text} | {"`foreach`", "`count`", "ſET", "insert", "*", "|", "{", "}"}
    )
    for _ in range(count):
        text, other = list(dice.choice(texts)), dice.choice(texts)
        if dice.random() < 0.5:
            start, cut = dice.randrange(len(other)), dice.randrange(len(text) + 1)
            text[cut : cut + dice.randrange(3)] = other[start : start + dice.randrange(1, 12)]
        for _ in range(dice.randrange(3)):
            at = dice.randrange(len(text))
            text[at : at + dice.randrange(2)] = [dice.choice((dice.choice(words), f"`{text[at].strip('`')}`"))]
        yield " ".join(text)


def plan_of(graph: grafeo.GrafeoDB, statement: str) -> str:
    """What the engine would do; empty if it does not take the statement."""
    try:
        return str(graph.execute_cypher("EXPLAIN\n" + statement, {"x": 1, "rows": []}).scalar())
    except grafeo.GrafeoError as exc:
        return "Schema" if "Schema commands" in str(exc) else ""


def test_nothing_that_passes_has_a_writing_plan() -> None:
    """The first line agrees with the engine's parser: what passes has a plan that only reads, in 20,000 statements."""
    graph = grafeo.GrafeoDB()
    reading = writing = 0
    for statement in mutations(seed=7, count=20_000):
        plan = plan_of(graph, statement)
        operators = {found[1] for line in plan.splitlines() if (found := OPERATOR.match(line)) and found[1]}
        nested = re.search(r"(LoadData|SetProperty|Create|Delete|Merge|AddLabel|RemoveLabel)\w*\(\w+Op", plan)
        if nested or not operators <= READ_OPERATORS:
            writing += 1
            with pytest.raises(CypherRefused):
                check_read_only(statement, max_chars=20_000)
        elif plan:
            reading += 1
    assert reading > 1_000
    assert writing > 500


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("MATCH (n RETURN n", "syntax error: Expected RParen (line 1, column 10)"),
        ("MATCH (n)\nRETURN n.x +", "syntax error: Expected expression (line 2, column 13)"),
        ("RETURN sise('x')", "semantic error: Unknown function 'sise'. Did you mean 'size'?"),
        ("RETURN $absent", "semantic error: Missing parameter: $absent"),
        ("MATCH (n) RETURN n.set", "syntax error: Expected identifier (line 1, column 20)"),
    ],
)
def test_the_engines_reason_is_told_in_one_line(graph_copy: Path, statement: str, message: str) -> None:
    """A failure says what the engine said and where, without codes and without the place of a file."""
    with pytest.raises(CypherFailed) as caught:
        run(graph_copy, statement)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [{1, 2}, b"x", float("nan"), object(), "x" * 5_000_000, [-(2**63) - 1]])
def test_parameters_must_be_json_of_a_bounded_size(graph_copy: Path, value: object) -> None:
    """What JSON cannot carry, and too much of it, is refused before a worker starts."""
    with pytest.raises(CypherRefused, match="parameters"):
        run(graph_copy, "RETURN $x", {"x": value})


def test_the_largest_and_the_least_integer_arrive_as_such(graph_copy: Path) -> None:
    assert run(graph_copy, "RETURN $x + 0, $y + 0", {"x": 2**63 - 1, "y": -(2**63)}).rows == ((2**63 - 1, -(2**63)),)
    with pytest.raises(CypherRefused, match=f"hold {2**63}: an integer has 64 bits"):
        run(graph_copy, "RETURN $x", {"x": {"deep": [2**63]}})


def test_large_parameters_arrive_whole(graph_copy: Path) -> None:
    """Parameters larger than a pipe holds do not stall the two processes."""
    assert run(graph_copy, "RETURN size($x)", {"x": "y" * 3_000_000}).rows == ((3_000_000,),)


def test_without_a_published_copy_there_is_nothing_to_ask(tmp_path: Path) -> None:
    """A missing file and a file that is no graph are failures, told without their path."""
    (tmp_path / "foreign").write_text("hello")
    for name in ("absent", "foreign"):
        with pytest.raises(CypherFailed) as caught:
            run(tmp_path / name, "RETURN 1")
        assert str(tmp_path) not in str(caught.value)


def test_a_crash_of_the_engine_is_one_line(graph_copy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A list nested ten thousand deep ends the worker, not this process, and nothing reaches the terminal."""
    with pytest.raises(CypherError):
        run(graph_copy, "RETURN reduce(s = [], i IN range(1, 20000) | [s]) AS s")
    assert capfd.readouterr() == ("", "")


@on_linux
@pytest.mark.parametrize("bomb", OF_MEMORY)
def test_a_memory_bomb_ends_the_worker_with_one_line(
    graph_copy: Path, bomb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A statement that wants more memory than allowed ends; the message names the limit and its setting."""
    with pytest.raises(CypherLimit) as caught:
        run(graph_copy, bomb)
    assert str(caught.value) == (
        "the statement was ended: it wanted more than 256 MiB of memory. "
        "Ask for less, or raise WAYGRAPH_CYPHER_MEMORY_MIB."
    )
    assert capfd.readouterr() == ("", "")


@on_linux
def test_the_memory_limit_is_the_settings(graph_copy: Path) -> None:
    statement = "UNWIND range(1, 300000) AS x RETURN count(x), size(collect([x, 'text']))"
    with pytest.raises(CypherLimit):
        run(graph_copy, statement, settings=Settings(cypher_memory_mib=16))
    assert run(graph_copy, statement, settings=Settings(cypher_memory_mib=1024)).rows[0][0] == 300_000


def test_an_endless_statement_ends_at_the_deadline(graph_copy: Path) -> None:
    """Time is up after `cypher_timeout_s`; the message names the limit and its setting, and no worker is left."""
    started = time.monotonic()
    with pytest.raises(CypherLimit, match=r"ended after 1 s\. .* WAYGRAPH_CYPHER_TIMEOUT_S"):
        run(graph_copy, ENDLESS, settings=Settings(cypher_timeout_s=1.0))
    assert time.monotonic() - started < 60
    assert workers_of(os.getpid()) == []


def workers_of(parent: int) -> list[int]:
    """The worker processes whose parent is `parent`, zombies too; none where there is no /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            ppid = int(stat.read_text().rpartition(")")[2].split()[1])
            command = stat.with_name("cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if ppid == parent and (b"grafeo_worker" in command or not command):
            found.append(int(stat.parent.name))
    return found


def eventually[T](question: Callable[[], T], seconds: float = 60.0) -> T:
    deadline = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


@dataclass
class Busy:
    """A worker in the middle of a long statement, and the error its end became."""

    pid: int
    asking: Thread
    errors: list[CypherError]

    def end(self) -> CypherError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.asking.join()
        return self.errors[0]


@pytest.fixture
def busy(graph_copy: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Busy]:
    monkeypatch.setenv("WAYGRAPH_SECRET", "hunter2")
    errors: list[CypherError] = []

    def ask() -> None:
        with pytest.raises(CypherError) as caught:
            run(graph_copy, ENDLESS)
        errors.append(caught.value)

    asking = Thread(target=ask)
    asking.start()
    pid = eventually(lambda: workers_of(os.getpid()))[0]
    eventually(lambda: limit_of(pid, "Max open files") == "0")
    worker = Busy(pid, asking, errors)
    yield worker
    worker.end()


def limit_of(pid: int, name: str) -> str:
    limits = Path(f"/proc/{pid}/limits").read_text()
    row = next((line for line in limits.splitlines() if line.startswith(name)), "")
    return row[len(name) :].split()[0] if row else ""


@on_linux
def test_the_worker_inherits_nothing_it_could_tell(busy: Busy) -> None:
    """No secret of this process is in the worker's environment, no file of it is open there, no limit is missing."""
    environment = Path(f"/proc/{busy.pid}/environ").read_bytes()
    files = [os.readlink(file) for file in Path(f"/proc/{busy.pid}/fd").iterdir()]
    assert b"hunter2" not in environment
    assert {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry} <= {
        b"TMPDIR", b"MALLOC_ARENA_MAX", b"RAYON_NUM_THREADS", b"LD_LIBRARY_PATH", b"LC_CTYPE",
    }  # fmt: skip
    assert {file.partition(":")[0] for file in files if not file.endswith("graph.grafeo")} <= {"pipe"}
    assert os.readlink(f"/proc/{busy.pid}/cwd") == "/"
    assert os.getpgid(busy.pid) == busy.pid
    for name in ("Max open files", "Max file size", "Max core file size"):
        assert limit_of(busy.pid, name) == "0"
    assert limit_of(busy.pid, "Max address space") != "unlimited"


@on_linux
def test_a_worker_dies_with_its_parent(graph_copy: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces, run_read_only\n"
        "from waygraph.registry.model.settings import Settings; settings = Settings(cypher_timeout_s=100.0)\n"
        "run_read_only(Path(sys.argv[1]), sys.argv[2], {}, settings, CypherPlaces(settings))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(graph_copy), ENDLESS])
    try:
        (worker,) = eventually(lambda: workers_of(parent.pid))
        eventually(lambda: limit_of(worker, "Max open files") == "0")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert eventually(lambda: not Path(f"/proc/{worker}").exists())


@on_linux
def test_a_killed_worker_is_an_error_like_any_other(busy: Busy) -> None:
    """When the kernel ends a worker, as it does if memory runs out, the statement fails with one line."""
    error = busy.end()
    assert isinstance(error, CypherLimit)
    assert "memory" in str(error)


@on_linux
def test_a_killed_worker_leaves_nothing_behind(busy: Busy) -> None:
    """The engine's folder for spilling, which only an orderly end removes, is never made."""
    busy.end()
    assert list(Path(tempfile.gettempdir()).glob(f"*-{busy.pid}-*.spill")) == []


def test_statements_run_side_by_side(graph_copy: Path) -> None:
    counts: list[object] = []

    def ask() -> None:
        counts.append(run(graph_copy, "MATCH (t:Tool) RETURN count(t)").rows[0][0])

    threads = [Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [4] * 6
