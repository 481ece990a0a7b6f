"""Whatever goes wrong with a real server is one clear error, soon, without a secret; and the registry survives it."""

import io
import json
import logging
import socket
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from neo4j import GraphDatabase
from neo4j.exceptions import TransientError

from benchmarks.neo4j_server import Neo4jServer, Release
from tests.neo4j_fixtures import TARGETS, neo4j_needed
from waygraph import Settings
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph import neo4j
from waygraph.registry.index.neo4j_upkeep import keep_index
from waygraph.registry.model.errors import (
    EngineError,
    InvalidSetting,
    RegistryClosed,
    RegistryNotFound,
    ServerRefused,
    ServerUnavailable,
    StorageFailed,
    WaygraphError,
)
from waygraph.registry.storage import server
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry

pytestmark = pytest.mark.skipif("given" in TARGETS, reason="a server that is given is not ours to kill")

PASSWORD = "an-unlikely-Secret-7"  # noqa: S105 - of a server that lives for a minute
WRONG = "another-unlikely-Secret-8"
QUICK_S = 25.0
"""Less than the driver tries again by itself; a busy machine takes ten."""
"""Less than RETRY_S: what came sooner was not waited for. Much more than any of it takes."""


class Configured(Neo4jServer):
    """With more lines in its configuration; they hold from the next start."""

    lines: tuple[str, ...] = ("dbms.security.auth_max_failed_attempts=0",)

    def _configure(self) -> None:
        super()._configure()
        with (self.folder / "conf" / "neo4j.conf").open("a", encoding="utf-8") as file:
            file.write("\n".join(self.lines) + "\n")


@pytest.fixture(scope="module", params=list(TARGETS.values()), ids=list(TARGETS))
def release(request: pytest.FixtureRequest) -> Release:
    chosen: Release = request.param
    return chosen


@pytest.fixture(scope="module")
def neo4j_server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """One that asks for a password, and holds a registry at revision 1."""
    with neo4j_needed(), Configured(release, tmp_path_factory.mktemp("neo4j"), password=PASSWORD) as started:
        with opened(started) as registry:
            ingest(registry, started.folder, agents=3)
        yield started


def settings(**changed: object) -> Settings:
    return Settings(**{"neo4j_password": PASSWORD, "embedder": "none", **changed})  # type: ignore[arg-type]


def opened(at: Neo4jServer | str, **changed: object) -> LocalRegistry:
    return LocalRegistry.open(at if isinstance(at, str) else at.uri, settings=settings(**changed), environ={})


def ingest(registry: LocalRegistry, folder: Path, *, agents: int, said: str = "harbour") -> int:
    """The revision after a sync of so many agents with five tools each."""
    path = folder / "fleet.json"
    tools = [{"name": f"tool_{n}", "description": f"does {said} number {n}"} for n in range(5)]
    fleet = [{"id": f"agent-{n}", "description": f"the {said} master {n}", "tools": tools} for n in range(agents)]
    path.write_text(json.dumps({"waygraph": 1, "agents": fleet}))
    (manifest,) = read_path(str(path), registry.settings)
    return sync(registry, manifest).revision


@contextmanager
def fails[E: WaygraphError](kind: type[E], *told: str) -> Iterator[pytest.ExceptionInfo[E]]:
    """The block raises this error soon, with these words in its message and no secret anywhere."""
    started = time.monotonic()
    with pytest.raises(kind) as failed:
        yield failed
    assert time.monotonic() - started < QUICK_S
    assert type(failed.value) is kind
    assert [word for word in told if word not in str(failed.value)] == []
    assert "\n" not in str(failed.value)
    everything = "".join(traceback.format_exception(failed.value))
    assert PASSWORD not in everything
    assert WRONG not in everything


def test_a_wrong_password(neo4j_server: Configured) -> None:
    with fails(ServerRefused, "did not let user 'neo4j' in", "WAYGRAPH_NEO4J_PASSWORD"):
        opened(neo4j_server, neo4j_password=WRONG)


def test_an_unknown_user(neo4j_server: Configured) -> None:
    with fails(ServerRefused, "did not let user 'bob' in"):
        opened(neo4j_server, neo4j_user="bob")


def test_no_password(neo4j_server: Configured) -> None:
    with fails(ServerRefused, "anybody without a password"):
        opened(neo4j_server, neo4j_password="")


def test_a_token_that_the_server_does_not_take(neo4j_server: Configured) -> None:
    with fails(ServerRefused, "the bearer of this token"):
        opened(neo4j_server, neo4j_token=WRONG)


def test_a_secret_in_the_url(neo4j_server: Configured) -> None:
    with fails(InvalidSetting, "WAYGRAPH_NEO4J_PASSWORD"):
        opened(f"bolt://neo4j:{PASSWORD}@127.0.0.1:{neo4j_server.port}")


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_a_database_that_is_not_there(neo4j_server: Configured, scheme: str) -> None:
    with fails(ServerRefused, "no database 'elsewhere'"):
        opened(f"{scheme}://127.0.0.1:{neo4j_server.port}/elsewhere")


def test_a_password_that_must_be_changed_first(neo4j_server: Configured) -> None:
    administrate(
        neo4j_server, "CREATE USER novice IF NOT EXISTS SET PASSWORD $password CHANGE REQUIRED", password=WRONG
    )
    with fails(ServerRefused, "user 'novice'"):
        opened(neo4j_server, neo4j_user="novice", neo4j_password=WRONG)


def administrate(at: Neo4jServer, statement: str, **params: str) -> None:
    with GraphDatabase.driver(at.uri, auth=at.auth) as driver:
        driver.execute_query(statement, params, database_="system")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_a_server_that_is_too_old(neo4j_server: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j, "OLDEST", (9999, 1))
    with fails(ServerRefused, f"Neo4j/{neo4j_server.release.version} is too old", "Neo4j 9999.1 or later"):
        opened(neo4j_server)


@pytest.mark.parametrize("scheme", ["bolt", "neo4j", "neo4j+s"])
def test_no_such_host(scheme: str) -> None:
    with fails(ServerUnavailable, "no-such-host.invalid", "does not answer"):
        opened(f"{scheme}://no-such-host.invalid")


@pytest.mark.parametrize("scheme", ["bolt", "neo4j", "bolt+ssc"])
def test_nobody_listens(scheme: str) -> None:
    """The port is closed; it says that, not how the driver went about it."""
    with fails(ServerUnavailable, "Connection refused"):
        opened(f"{scheme}://127.0.0.1:9")


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_somebody_listens_who_says_nothing(scheme: str) -> None:
    """What accepts connections and never answers is given up after twice the time for a connection."""
    with socket.create_server(("127.0.0.1", 0)) as mute, fails(ServerUnavailable, "timed out"):
        opened(f"{scheme}://127.0.0.1:{mute.getsockname()[1]}", neo4j_connect_timeout_s=1.0)


def test_nothing_goes_to_stderr(neo4j_server: Configured) -> None:
    said = io.StringIO()
    lost = logging.lastResort
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging, "lastResort", logging.StreamHandler(said))
        patch.setattr(logging.getLogger(), "handlers", [])
        with suppress(ServerUnavailable):
            opened("neo4j://127.0.0.1:9")
    assert lost is logging.lastResort
    assert said.getvalue() == ""


@pytest.mark.parametrize("scheme", ["bolt+s", "bolt+ssc", "neo4j+s", "neo4j+ssc"])
def test_tls_asked_of_a_server_without(neo4j_server: Configured, scheme: str) -> None:
    with fails(ServerRefused, "no encrypted connection", "without +s"):
        opened(f"{scheme}://127.0.0.1:{neo4j_server.port}")


@pytest.fixture(scope="module")
def strict_server(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """One that speaks TLS alone, with its own certificate, and lets anybody in; 4 MiB a transaction, 12 in all."""
    made = Configured(release, tmp_path_factory.mktemp("strict"))
    certificates = made.folder / "certificates"
    certificates.mkdir()
    made_certificate(certificates)
    made.lines = (
        "server.bolt.tls_level=REQUIRED",
        "dbms.ssl.policy.bolt.enabled=true",
        f"dbms.ssl.policy.bolt.base_directory={certificates}",
        "dbms.ssl.policy.bolt.client_auth=NONE",
        "db.memory.transaction.max=4m",
        "dbms.memory.transaction.total.max=12m",
    )
    with neo4j_needed(), made:
        yield made


def made_certificate(folder: Path) -> None:
    request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(folder / "private.key"), "-out", str(folder / "public.crt")]
    try:
        subprocess.run(["openssl", *request.split(), *files], check=True, capture_output=True)  # noqa: S607
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")


def test_a_certificate_that_is_trusted(strict_server: Configured) -> None:
    port, authority = strict_server.port, str(strict_server.folder / "certificates" / "public.crt")
    for scheme in ("bolt+s", "neo4j+s"):
        with opened(f"{scheme}://127.0.0.1:{port}", neo4j_ca_file=authority) as registry:
            assert not registry.store.exists
    with opened(f"bolt+ssc://127.0.0.1:{port}") as registry, fails(RegistryNotFound, f"bolt+ssc://127.0.0.1:{port}"):
        registry.status()


@pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s"])
def test_a_certificate_that_is_not_trusted(strict_server: Configured, scheme: str) -> None:
    with fails(ServerRefused, "certificate is not trusted", "WAYGRAPH_NEO4J_CA_FILE"):
        opened(f"{scheme}://127.0.0.1:{strict_server.port}")


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_no_tls_asked_of_a_server_that_wants_it(strict_server: Configured, scheme: str) -> None:
    with fails(ServerUnavailable, f"{scheme}+s://"):
        opened(f"{scheme}://127.0.0.1:{strict_server.port}")


def test_more_than_a_transaction_may_hold(strict_server: Configured, tmp_path: Path) -> None:
    """The setting of the server is named, nothing is kept, and the registry goes on."""
    with opened(f"bolt+ssc://127.0.0.1:{strict_server.port}") as registry:
        with fails(StorageFailed, "db.memory.transaction.max"):
            ingest(registry, tmp_path, agents=800)
        assert registry.agents() == []
        assert ingest(registry, tmp_path, agents=2) == 1


def test_memory_that_other_transactions_hold(strict_server: Configured) -> None:
    """A read may succeed later and says so; once they have ended it does, on the same registry."""
    with opened(f"bolt+ssc://127.0.0.1:{strict_server.port}") as registry:
        before = registry.status()
        with crowded(strict_server), fails(ServerUnavailable, "dbms.memory.transaction.total.max") as failed:
            registry.status()
        assert failed.value.retryable
        assert registry.status() == before


@contextmanager
def crowded(at: Neo4jServer) -> Iterator[None]:
    """Within the block, sorted rows that nobody fetches hold the memory of all transactions, but for a few rows'."""
    sort = "UNWIND range(1, $rows) AS x RETURN [x, 'text'] AS row ORDER BY -x"
    rows = 32_768
    with GraphDatabase.driver(f"bolt+ssc://127.0.0.1:{at.port}") as driver, ExitStack() as held:
        while rows > 16:
            session = held.enter_context(driver.session(fetch_size=1))
            try:
                session.begin_transaction().run(sort, rows=rows).peek()
            except TransientError:
                session.close()
                rows //= 2
        yield


def test_longer_than_a_transaction_may_take(neo4j_server: Configured, tmp_path: Path) -> None:
    with opened(neo4j_server, neo4j_write_timeout_s=0.001) as registry:
        before = registry.status().state.revision
        with fails(EngineError, "WAYGRAPH_NEO4J_WRITE_TIMEOUT_S"):
            ingest(registry, tmp_path, agents=800)
        assert registry.status().state.revision == before


def test_a_closed_registry(neo4j_server: Configured, tmp_path: Path) -> None:
    registry = opened(neo4j_server)
    registry.route("harbour")
    registry.close()
    registry.close()
    calls: list[Callable[[], object]] = [
        lambda: registry.route("harbour"),
        registry.status,
        lambda: registry.store.exists,
        lambda: registry.operator.set("agent-1", pinned=True),
        lambda: ingest(registry, tmp_path, agents=1),
    ]
    for call in calls:
        with fails(RegistryClosed):
            call()


def test_a_registry_that_another_thread_closes(neo4j_server: Configured) -> None:
    """Whoever is in the middle of a question hears that it was closed, and nothing of sockets."""
    registry = opened(neo4j_server)
    seen: list[BaseException] = []

    def ask() -> None:
        while not seen:
            try:
                registry.route("harbour")
            except WaygraphError as error:
                seen.append(error)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    time.sleep(0.5)
    registry.close()
    for asker in askers:
        asker.join(QUICK_S)
    assert {type(error) for error in seen} == {RegistryClosed}


def test_a_password_that_changes(neo4j_server: Configured) -> None:
    """A connection that stands goes on; a new one is refused, at once and each time; then the new password works."""
    with opened(neo4j_server) as registry:
        registry.route("harbour")
        change_password(neo4j_server, WRONG)
        try:
            registry.route("harbour")
            store = registry.store
            assert isinstance(store, server.ServerStore)
            with ExitStack() as held, fails(ServerRefused, "did not let user 'neo4j' in"):
                for _ in range(3):  # more than the pool holds
                    held.enter_context(store.engine.reading())
            with fails(ServerRefused, "did not let user 'neo4j' in"):
                registry.operator.set("agent-1", pinned=True)  # beside its commit it sets a mark, on another connection
            with opened(neo4j_server, neo4j_password=WRONG) as anew:
                assert not anew.agent("agent-1").pinned
        finally:
            change_password(neo4j_server, PASSWORD, before=WRONG)


def change_password(at: Neo4jServer, password: str, before: str = PASSWORD) -> None:
    with GraphDatabase.driver(at.uri, auth=("neo4j", before)) as driver:
        statement = "ALTER CURRENT USER SET PASSWORD FROM $before TO $after"
        driver.execute_query(statement, before=before, after=password, database_="system")


def test_a_server_that_dies_in_an_ingest_while_others_ask(
    neo4j_server: Configured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writer, readers and newcomers hear that it does not answer, and nothing else; nothing was kept; when it is back
    all of them go on with the registry that they have."""

    @contextmanager
    def dying(session: object, agent_ids: Collection[str]) -> Iterator[None]:
        with keep_index(session, agent_ids):  # type: ignore[arg-type]
            yield
        monkeypatch.undo()
        neo4j_server.kill()

    monkeypatch.setattr(neo4j, "RETRY_S", 2.0)
    with opened(neo4j_server) as registry, asking(registry) as askers:
        before = registry.status().state.revision
        monkeypatch.setattr(server, "keep_index", dying)
        with fails(ServerUnavailable, "Connection refused"):
            ingest(registry, tmp_path, agents=4)
        for call in (lambda: registry.route("harbour"), registry.status, registry.sources, registry.agents):
            with fails(ServerUnavailable, "Connection refused"):
                call()
        with fails(ServerUnavailable, "Connection refused"):
            opened(neo4j_server)
        neo4j_server.restart()
        askers.await_answers()
        assert registry.sources()
        assert registry.status().state.revision == before
        assert ingest(registry, tmp_path, agents=5) == before + 1
        askers.await_answers()
        assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []
    assert {type(error) for error in askers.errors} == {ServerUnavailable}
    assert all(error.retryable for error in askers.errors if isinstance(error, WaygraphError))


@dataclass
class Askers:
    answers: int = 0
    errors: list[Exception] = field(default_factory=list)
    ended: bool = False

    def ask(self, registry: LocalRegistry) -> None:
        while not self.ended:
            try:
                registry.route("harbour")
                self.answers += 1
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at in the end
                self.errors.append(error)
                time.sleep(0.05)

    def await_answers(self) -> None:
        """Returns when ten more came."""
        wanted, give_up = self.answers + 10, time.monotonic() + 60
        while self.answers < wanted:
            assert time.monotonic() < give_up
            time.sleep(0.02)


@contextmanager
def asking(registry: LocalRegistry) -> Iterator[Askers]:
    """Two threads that route all the while, and have begun to."""
    askers = Askers()
    threads = [threading.Thread(target=askers.ask, args=(registry,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        askers.await_answers()
        yield askers
    finally:
        askers.ended = True
        for thread in threads:
            thread.join()


def test_nothing_tells_the_password(
    neo4j_server: Configured,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the most talkative log, nor status and doctor, nor an error on the command line."""
    caplog.set_level(logging.DEBUG)
    for password in (PASSWORD, WRONG):
        monkeypatch.setenv("WAYGRAPH_NEO4J_PASSWORD", password)
        monkeypatch.setenv("WAYGRAPH_NEO4J_TOKEN", "")
        for words in (
            ["status"],
            ["status", "--json"],
            ["doctor"],
            ["doctor", "--deep", "--json"],
            ["route", "harbour"],
        ):
            assert main(["--registry", neo4j_server.uri, *words]) == (1 if password == WRONG else 0)
    told = capsys.readouterr()
    assert neo4j_server.uri in told.out
    assert "did not let" in told.err
    assert "LOGON" in caplog.text
    for text in (told.out, told.err, caplog.text):
        assert PASSWORD not in text
        assert WRONG not in text


def test_a_database_that_takes_no_writes(neo4j_server: Configured, tmp_path: Path) -> None:
    """Routing goes on; a write says that the database is read-only. It comes last: the server stays so."""
    neo4j_server.lines = ("server.databases.default_to_read_only=true",)
    neo4j_server.restart()
    with opened(neo4j_server) as registry:
        assert registry.route("harbour").matches
        for write in (
            lambda: registry.operator.set("agent-1", hidden=True),
            lambda: ingest(registry, tmp_path, agents=3),
        ):
            with fails(StorageFailed, "takes no writes", "read-only"):
                write()
        assert not registry.agent("agent-1").hidden
