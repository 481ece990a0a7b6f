"""What every graph engine does, whichever it is; and how an embedded one refuses files that are not its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import grafeo
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.places import PLACES, Servers, new_place, server_engine
from waygraph.cypher import BadStatement, Statement, load
from waygraph.cypher.loader import parse
from waygraph.registry.graph.engine import WRITE_ATTEMPTS, GraphEngine, GraphSession
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.schema import MIGRATIONS, SCHEMA_VERSION, migrate
from waygraph.registry.model.errors import EngineError, RegistryClosed, RegistryError, RegistryUnusable, WriteConflict
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.embedded import EmbeddedStore


def statement(text: str, params: str = "none", returns: str = "none") -> Statement:
    return parse("test/one", f"// For a test.\n// params: {params}\n// returns: {returns}\n{text}")


PUT = statement("MERGE (thing:Thing {id: $id}) SET thing += $props", "id string, props map")
GET = statement(
    "MATCH (thing:Thing) RETURN thing.id AS id, thing.left AS left, thing.right AS right ORDER BY id",
    returns="id string, left integer, right integer",
)
BROKEN = statement("MATCH (thing RETURN thing")


def _file(folder: Path) -> GrafeoEngine:
    return GrafeoEngine.open(folder / "graph.grafeo")


@pytest.fixture(params=PLACES)
def engine(request: pytest.FixtureRequest, tmp_path: Path, neo4j_servers: Servers) -> Iterator[GraphEngine]:
    """Every engine."""
    is_file = request.param == "grafeo file"
    opened = _file(tmp_path) if is_file else server_engine(new_place(request.param, tmp_path, neo4j_servers))
    with closing(opened):
        yield opened


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[GrafeoEngine]:
    """An engine where two transactions that meet conflict, and where one moment is read whole."""
    with closing(_file(tmp_path)) as opened:
        yield opened


def put(session: GraphSession, name: str, number: int) -> None:
    session.run(PUT, id=name, props={"left": number, "right": number})


def test_a_failed_write_leaves_nothing(engine: GraphEngine) -> None:
    put(engine, "kept", 1)

    def work(session: GraphSession) -> None:
        put(session, "kept", 2)
        put(session, "lost", 2)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        engine.write(work)
    assert engine.run(GET) == [{"id": "kept", "left": 1, "right": 1}]


def test_the_first_error_is_the_one_seen(engine: GraphEngine) -> None:
    """A statement that the engine refuses ends the block with that error, not with one of the rollback."""

    def work(session: GraphSession) -> None:
        put(session, "lost", 1)
        session.run(BROKEN)

    with pytest.raises(EngineError, match=r"(?i)syntax error|Invalid input"):
        engine.write(work)
    assert engine.run(GET) == []


def test_an_error_that_is_swallowed_does_not_commit_half(engine: GraphEngine) -> None:
    """A failed statement inside a block that goes on: the block commits what it wrote, or raises and keeps nothing."""
    try:
        with engine.transaction() as session:
            put(session, "first", 1)
            try:
                session.run(BROKEN)
            except EngineError:
                put(session, "second", 1)
    except RegistryError:
        assert engine.run(GET) == []
    else:
        assert [row["id"] for row in engine.run(GET)] == ["first", "second"]


def test_a_block_sees_its_own_writes_and_others_do_not(engine: GraphEngine) -> None:
    with engine.transaction() as session:
        put(session, "new", 1)
        assert [row["id"] for row in session.run(GET)] == ["new"]
        assert engine.run(GET) == []
    assert [row["id"] for row in engine.run(GET)] == ["new"]


def test_write_returns_what_the_work_returns(engine: GraphEngine) -> None:
    assert engine.write(lambda session: len(session.run(GET))) == 0


def rival(engine: GrafeoEngine) -> Callable[[int], None]:
    """Writes to the same graph past the engine's own order, as another writer would."""

    def write(number: int) -> None:
        other = engine._database.begin_transaction()
        other.execute_cypher("MATCH (thing:Thing {id: 'shared'}) SET thing.left = $n, thing.right = $n", {"n": number})
        other.commit()

    return write


def test_a_conflict_is_tried_again_from_the_start(embedded: GrafeoEngine) -> None:
    """When another writer changes the same node first, the work runs anew on what that one left."""
    put(embedded, "shared", 1)
    interfere, attempts = rival(embedded), []

    def work(session: GraphSession) -> None:
        [row] = session.run(GET)
        attempts.append(row["left"])
        if len(attempts) == 1:
            interfere(10)
        put(session, "shared", row["left"] + 1)

    embedded.write(work)
    assert attempts == [1, 10]
    assert embedded.run(GET) == [{"id": "shared", "left": 11, "right": 11}]


def test_a_conflict_that_does_not_end_is_an_error_that_can_be_retried(embedded: GrafeoEngine) -> None:
    """After a bounded number of attempts the conflict is raised, and nothing was written."""
    put(embedded, "shared", 0)
    interfere, attempts = rival(embedded), []

    def work(session: GraphSession) -> None:
        session.run(GET)
        attempts.append(1)
        interfere(len(attempts))
        put(session, "shared", 99)

    with pytest.raises(WriteConflict) as caught:
        embedded.write(work)
    assert caught.value.retryable
    assert len(attempts) == WRITE_ATTEMPTS
    assert embedded.run(GET)[0]["left"] == WRITE_ATTEMPTS


def test_threads_that_write_lose_no_write(embedded: GrafeoEngine) -> None:
    """Four threads add one to the same number 25 times each: it ends at 100."""
    put(embedded, "shared", 0)

    def count() -> None:
        for _ in range(25):
            embedded.write(lambda session: put(session, "shared", session.run(GET)[0]["left"] + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert embedded.run(GET) == [{"id": "shared", "left": 100, "right": 100}]


@pytest.mark.parametrize("writes", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_readers_beside_a_writer_see_no_mixture(embedded: GrafeoEngine, writes: int) -> None:
    """Eight threads read two properties that are always written together: they are always equal."""
    put(embedded, "shared", 0)
    done, mixed, seen = threading.Event(), [], set()

    def read() -> None:
        while not done.is_set():
            [row] = embedded.run(GET)
            seen.add(row["left"])
            if row["left"] != row["right"]:
                mixed.append(row)

    def write_both(session: GraphSession, number: int) -> None:
        session.run(PUT, id="shared", props={"left": number})
        session.run(PUT, id="shared", props={"right": number})

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for number in range(1, 40 * writes):
        embedded.write(lambda session, number=number: write_both(session, number))  # type: ignore[misc]
        # On a busy machine the readers may not have had their turn yet.
        if number >= writes and len(seen) > 3:
            break
    done.set()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert len(seen) > 3


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"id": "a"},
        {"id": "a", "props": {}, "more": 1},
        {"id": "a", "props": []},
        {"id": 1, "props": {}},
        {"id": True, "props": {}},
    ],
)
def test_undeclared_parameters_are_refused(engine: GraphEngine, params: dict[str, object]) -> None:
    """A parameter that is missing, unknown or of another type is a fault of the program and nothing runs."""
    with pytest.raises(BadStatement):
        engine.run(PUT, **params)
    assert engine.run(GET) == []


@pytest.mark.parametrize("wrong", ["", None, 1, 1.5, True, ["a"]])
def test_ids_are_non_empty_strings(engine: GraphEngine, wrong: object) -> None:
    with pytest.raises((EngineError, BadStatement)):
        engine.run(PUT, id=wrong, props={})
    with pytest.raises(EngineError):
        engine.run(load("sync/put_agents"), rows=[{"id": "good", "props": {}}, {"id": wrong, "props": {}}])
    with pytest.raises(EngineError):
        engine.run(load("sync/remove_agents"), ids=["good", wrong])
    with pytest.raises((EngineError, BadStatement)):
        engine.run(load("sync/put_source"), name=wrong, namespace="", rank=0, seen_at="")
    assert engine.run(load("read/agents")) == []
    assert engine.run(load("read/sources")) == []


@pytest.mark.parametrize("value", ["\ud800", timedelta(1), {1}, object(), 1 + 2j, "x" * (17 * 1024 * 1024)])
def test_a_value_that_no_engine_takes_is_our_error(engine: GraphEngine, value: object) -> None:
    """Half a surrogate pair, a set, a text of 17 MiB: an EngineError, and nothing is written."""
    with pytest.raises(EngineError):
        engine.run(PUT, id="a", props={"value": value})
    assert engine.run(GET) == []


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=40),
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
)
def test_any_text_comes_back_as_it_went(text: str, name: str) -> None:
    """Quotes, `$`, nulls, emoji and right-to-left marks are values, never Cypher."""
    engine = GrafeoEngine.open(None)
    read = statement(
        "MATCH (thing:Thing {id: $id}) RETURN thing.id AS id, thing.text AS text", "id string", "id string, text string"
    )
    engine.run(PUT, id=name, props={"text": text})
    assert engine.run(read, id=name) == [{"id": name, "text": text}]
    engine.close()


def test_a_closed_engine_answers_nothing(engine: GraphEngine, tmp_path: Path) -> None:
    """Reading, writing, copying: all raise RegistryClosed; closing again does nothing."""
    engine.close()
    engine.close()
    asks: list[Callable[[], object]] = [
        lambda: engine.run(GET),
        lambda: engine.write(lambda session: session.run(GET)),
        engine.transaction().__enter__,
        lambda: engine.define(load("schema/unique_id", "Agent")),
    ]
    if isinstance(engine, GrafeoEngine):
        asks += [engine.checkpoint, engine.labels, lambda: engine.save(tmp_path / "copy")]
    for ask in asks:
        with pytest.raises(RegistryClosed):
            ask()


def test_what_was_committed_is_there_when_opened_again(tmp_path: Path) -> None:
    engine = _file(tmp_path)
    migrate(engine, "here", "2026-01-01")
    put(engine, "kept", 1)
    engine.close()
    again = _file(tmp_path)
    assert again.run(GET) == [{"id": "kept", "left": 1, "right": 1}]
    assert again._database.has_property_index("id")
    again.run(load("sync/put_agents"), rows=[{"id": "a", "props": {"name": "a"}}])
    with pytest.raises(EngineError):
        again.run(statement("CREATE (:Agent {id: 'a'})"))
    again.close()


def test_a_copy_is_whole_and_read_only(tmp_path: Path) -> None:
    """A saved copy holds what the graph held then, can be read by several at once, and takes no write."""
    engine = _file(tmp_path)
    put(engine, "kept", 1)
    engine.save(tmp_path / "copy")
    put(engine, "kept", 2)
    first, second = GrafeoEngine.open_copy(tmp_path / "copy"), GrafeoEngine.open_copy(tmp_path / "copy")
    assert first.run(GET) == second.run(GET) == [{"id": "kept", "left": 1, "right": 1}]
    with pytest.raises(RegistryError):
        put(first, "new", 1)
    for opened in (first, second, engine):
        opened.close()


def test_migrations_may_be_repeated(engine: GraphEngine) -> None:
    """Running them again, also after one was cut short, changes nothing."""
    for _ in range(2):
        migrate(engine, "here", "2026-01-01")
    engine.define(MIGRATIONS[0].statements[0])
    rows = engine.run(load("schema/migrations"))
    assert [row["id"] for row in rows] == [str(migration.number) for migration in MIGRATIONS]


def _text(path: Path) -> None:
    path.write_text("This is not a graph. " * 500)


def _empty(path: Path) -> None:
    path.touch()


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def _graph(path: Path) -> None:
    database = grafeo.GrafeoDB(str(path))
    database.execute_cypher("CREATE (:Person {id: 'ann'})-[:KNOWS]->(:Person {id: 'bob'})")
    database.close()


def _graph_of_agents(path: Path) -> None:
    database = grafeo.GrafeoDB(str(path))
    database.execute_cypher("CREATE (:Agent {id: 'smith'})-[:OWNS]->(:Tool {id: 'gun'})")
    database.close()


def _newer(path: Path) -> None:
    engine = GrafeoEngine.open(path)
    migrate(engine, str(path), "2026-01-01")
    row = {"id": str(SCHEMA_VERSION + 1), "name": "of tomorrow", "applied_at": "2030-01-01"}
    engine.run(load("schema/record_migrations"), rows=[row])
    engine.run(load("state/create"), props={"revision": 1, "schema_version": SCHEMA_VERSION + 1})
    engine.close()


def _cut(path: Path) -> None:
    _graph(path)
    path.write_bytes(path.read_bytes()[:5000])


def _flipped_header(path: Path) -> None:
    _graph(path)
    raw = bytearray(path.read_bytes())
    for at in (0, 4, 16, 40, 8192, 8200, 8240, 12288, 12300, 12340):
        raw[at] ^= 0x55
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_text, "not a Grafeo file"),
        (_empty, "empty"),
        (_folder, "not a Grafeo file"),
        (_graph, r"a Grafeo graph of something else \(Person\)"),
        (_graph_of_agents, r"a Grafeo graph of something else \(Agent, Tool\)"),
        (_newer, "a newer Waygraph wrote it .* Upgrade waygraph"),
        (_cut, "damaged"),
        (_flipped_header, "damaged|not a Grafeo file"),
    ],
)
@pytest.mark.parametrize("use", [lambda store: store.index(), lambda store: store.writing().__enter__()])
def test_what_is_not_ours_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], reason: str, use: Callable[[EmbeddedStore], object]
) -> None:
    """Text, empty, foreign, newer and damaged files: the reason is told, and not one byte changes."""
    path = tmp_path / "tools.grafeo"
    make(path)
    before = {file: file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()}
    store = EmbeddedStore(path, Settings())
    with pytest.raises(RegistryUnusable, match=reason):
        use(store)
    store.close()
    assert before == {file: file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()}
    assert not (tmp_path / "tools.grafeo.wal").exists()


def test_the_schema_version_is_that_of_the_last_migration() -> None:
    assert MIGRATIONS[-1].number == SCHEMA_VERSION
