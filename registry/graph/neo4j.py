"""The server engine: a Neo4j database, alone, in a cluster or hosted, over the official driver.

One driver a process and address. Every session shares its bookmarks, so that a read sees what this process wrote,
whichever member of a cluster answers.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, cast

from neo4j import GraphDatabase, Query, TrustAll, TrustCustomCAs, TrustSystemCAs, basic_auth, bearer_auth, unit_of_work
from neo4j.exceptions import (
    AuthError,
    ClientError,
    ConfigurationError,
    ConnectionAcquisitionTimeoutError,
    ConnectionPoolError,
    DatabaseUnavailable,
    DriverError,
    Forbidden,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from waygraph.cypher import Statement, load_for
from waygraph.registry.errors import (
    EngineError,
    RegistryClosed,
    RegistryError,
    ServerRefused,
    ServerUnavailable,
    StorageFailed,
    WriteConflict,
)
from waygraph.registry.graph.commit_mark import CommitMark
from waygraph.registry.graph.engine import GraphSession, Rows
from waygraph.registry.graph.server_location import ServerLocation
from waygraph.registry.graph.values import check_values
from waygraph.registry.settings import Settings

DIALECT = "neo4j"
OLDEST = (5, 26)
"""The oldest server that is tested: vector indexes as they are now, and long-term support."""
IN_INDEX_FILTERS = (2026, 6)
"""From here on `SEARCH … WHERE` filters by membership in a list."""
CONNECTIONS_TRIED = 3
SILENT: Literal["OFF"] = "OFF"
"""The server's notes on statements: an unknown label is no news in a registry that is not made yet."""


class ServerVersion(NamedTuple):
    major: int
    minor: int

    @classmethod
    def of_agent(cls, agent: str) -> "ServerVersion":
        """From what a server calls itself, such as `Neo4j/2026.08.1` or `Neo4j/5.27-aura`; (0, 0) if it tells none."""
        found = re.search(r"/v?(\d+)\.(\d+)", agent)
        return cls(int(found[1]), int(found[2])) if found else cls(0, 0)


class Neo4jEngine:
    """Implements GraphEngine over `neo4j`."""

    dialect = DIALECT

    def __init__(self, driver: Any, location: ServerLocation, settings: Settings) -> None:
        self._driver, self._settings = driver, settings
        self._bookmarks = GraphDatabase.bookmark_manager()
        self._version: ServerVersion | None = None
        self._closed = False
        self.place, self.database = location.place, location.database

    @classmethod
    def open(cls, location: ServerLocation, settings: Settings) -> "Neo4jEngine":
        """Nothing is asked of the server yet. Raises InvalidSetting's kin for what the driver cannot take."""
        try:
            driver: Any = GraphDatabase.driver(
                location.address,
                auth=_auth(settings),
                connection_timeout=settings.neo4j_connect_timeout_s,
                connection_acquisition_timeout=settings.neo4j_connect_timeout_s + settings.neo4j_read_timeout_s,
                max_transaction_retry_time=settings.neo4j_retry_s,
                max_connection_pool_size=settings.neo4j_pool_size,
                notifications_min_severity=SILENT,
                keep_alive=True,
                **_encryption(location, settings),
            )
        except (ConfigurationError, ValueError, OSError) as exc:
            raise ServerRefused(location.place, f"the driver cannot use this address: {exc}") from exc
        return cls(driver, location, settings)

    # -- statements --------------------------------------------------------------------------------

    def run(self, statement: Statement, /, **params: object) -> Rows:
        statement.check(params)
        check_values(params)
        work = unit_of_work(timeout=self._timeout_s(writes=statement.writes))(
            lambda transaction: _rows(transaction, load_for(DIALECT, statement).text, params)
        )
        with self._session(writes=statement.writes) as session, self._translated(statement.name):
            return cast("Rows", session.execute_write(work) if statement.writes else session.execute_read(work))

    def read_once(self, statement: Statement, params: dict[str, object]) -> dict[str, Any] | None:
        """The one row of a reading statement, None if there is none. For the hot path: in one round trip.

        Tried again at once where a connection of the pool had died.
        """
        statement.check(params)
        query = Query(statement.text, timeout=self.read_timeout_s)
        with self._translated(statement.name):
            for _ in range(CONNECTIONS_TRIED - 1):
                try:
                    return self._one_row(query, params)
                except (ServiceUnavailable, SessionExpired):
                    continue
            return self._one_row(query, params)

    def _one_row(self, query: Query, params: dict[str, object]) -> dict[str, Any] | None:
        with self._session(writes=False) as session:
            record = session.run(query, params).single()
            return dict(zip(record.keys(), record.values(), strict=True)) if record else None

    @property
    def read_timeout_s(self) -> float:
        return self._settings.neo4j_read_timeout_s

    @contextmanager
    def reading(self) -> Iterator[GraphSession]:
        """One reading transaction. Neo4j gives no snapshot: what others commit meanwhile is seen."""
        with self._session(writes=False) as session:
            yield from self._in_transaction(session, self._timeout_s(writes=False))

    @contextmanager
    def transaction(self) -> Iterator[GraphSession]:
        with self._session(writes=True) as session:
            yield from self._in_transaction(session, self._timeout_s(writes=True))

    def _in_transaction(self, session: Any, timeout_s: float) -> Iterator[GraphSession]:
        with self._translated(), session.begin_transaction(timeout=timeout_s) as transaction:
            yield _Transaction(transaction, self)
            transaction.commit()

    def write[T](self, work: Callable[[GraphSession], T]) -> T:
        commit = CommitMark(self)

        @unit_of_work(timeout=self._timeout_s(writes=True))
        def once(transaction: Any) -> T:
            try:
                done = work(_Transaction(transaction, self))
            except RegistryError as exc:
                if isinstance(exc.__cause__, (Neo4jError, DriverError)) and exc.__cause__.is_retryable():
                    raise exc.__cause__ from None  # the driver knows how to wait and begin again
                raise
            commit.begin()
            return done

        with self._session(writes=True) as session, self._translated(), commit:
            return cast("T", session.execute_write(once))

    def define(self, statement: Statement) -> None:
        self.run(statement)

    @property
    def version(self) -> ServerVersion:
        """Asked for once. Raises ServerRefused for a server that is too old, ServerUnavailable."""
        if self._version is None:
            self._check_open()
            with self._translated():
                agent = self._driver.get_server_info().agent
            self._version = _fitting(ServerVersion.of_agent(agent), agent, self.place)
        return self._version

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._driver.close()

    # -- inside ------------------------------------------------------------------------------------

    @contextmanager
    def _session(self, *, writes: bool) -> Iterator[Any]:
        self._check_open()
        with self._driver.session(
            database=self.database,
            default_access_mode="WRITE" if writes else "READ",
            bookmark_manager=self._bookmarks,
        ) as session:
            yield session

    def _timeout_s(self, *, writes: bool) -> float:
        return self._settings.neo4j_write_timeout_s if writes else self.read_timeout_s

    def _check_open(self) -> None:
        if self._closed:
            raise RegistryClosed

    @contextmanager
    def _translated(self, statement: str = "") -> Iterator[None]:
        try:
            yield
        except (Neo4jError, DriverError, OSError, UnicodeEncodeError) as exc:
            raise self.error(exc, statement) from exc

    def error(self, exc: Exception, statement: str = "") -> RegistryError:
        """Ours for one of the driver's."""
        seen = _first_line(exc)
        if isinstance(exc, (AuthError, Forbidden)) or "Security" in _code(exc):
            return ServerRefused(self.place, _refusal(exc, self._settings.neo4j_user))
        if _code(exc) in _NO_DATABASE:
            return ServerRefused(self.place, f"there is no database {self.database!r} ({seen})")
        if isinstance(exc, _UNAVAILABLE):
            return ServerUnavailable(self.place, seen)
        if any(sign in _code(exc) for sign in _NO_ROOM):
            return StorageFailed(f"{self.place}: nothing of this change was kept: {seen}")
        if isinstance(exc, TransientError):
            return WriteConflict(f"{self.place}: another writer was in the way; try again ({seen})")
        return EngineError(f"{self.place}{': ' + statement if statement else ''}: {seen}")


class _Transaction:
    def __init__(self, transaction: Any, engine: Neo4jEngine) -> None:
        self._transaction, self._engine = transaction, engine

    def run(self, statement: Statement, /, **params: object) -> Rows:
        statement.check(params)
        check_values(params)
        try:
            return _rows(self._transaction, load_for(DIALECT, statement).text, params)
        except (Neo4jError, DriverError, OSError, UnicodeEncodeError) as exc:
            raise self._engine.error(exc, statement.name) from exc


def _rows(transaction: Any, text: str, params: dict[str, object]) -> Rows:
    result = transaction.run(text, params)
    columns = result.keys()
    return [dict(zip(columns, record.values(), strict=True)) for record in result]


def _auth(settings: Settings) -> Any:
    if settings.neo4j_token:
        return bearer_auth(settings.neo4j_token)
    return basic_auth(settings.neo4j_user, settings.neo4j_password) if settings.neo4j_password else None


def _encryption(location: ServerLocation, settings: Settings) -> dict[str, Any]:
    if not location.encrypted:
        return {}
    if not location.verified:
        return {"encrypted": True, "trusted_certificates": TrustAll()}
    trusted = TrustCustomCAs(settings.neo4j_ca_file) if settings.neo4j_ca_file else TrustSystemCAs()
    return {"encrypted": True, "trusted_certificates": trusted}


def _fitting(version: ServerVersion, agent: str, place: str) -> ServerVersion:
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ServerRefused(place, f"{agent} is too old: Waygraph needs Neo4j {wanted} or later")
    return version


_UNAVAILABLE = (
    ServiceUnavailable,
    SessionExpired,
    DatabaseUnavailable,
    ConnectionAcquisitionTimeoutError,
    ConnectionPoolError,
    OSError,
)
_NO_DATABASE = ("Neo.ClientError.Database.DatabaseNotFound",)
_NO_ROOM = ("MemoryPoolOutOfMemoryError", "TransactionOutOfMemoryError", "OutOfDiskSpace", "ReadOnly")


def _refusal(exc: Exception, user: str) -> str:
    seen = _first_line(exc)
    if isinstance(exc, Forbidden) or "Forbidden" in _code(exc):
        return f"user {user!r} lacks a right ({seen}). It must read, write, and make constraints and indexes."
    return (
        f"the server did not let user {user!r} in ({seen}). "
        "Set WAYGRAPH_NEO4J_USER and WAYGRAPH_NEO4J_PASSWORD, or WAYGRAPH_NEO4J_TOKEN."
    )


def _code(exc: Exception) -> str:
    return str(exc.code or "") if isinstance(exc, (Neo4jError, ClientError)) else ""


def _first_line(exc: Exception) -> str:
    told = exc.message if isinstance(exc, Neo4jError) else str(exc)
    return (told or type(exc).__name__).partition("\n")[0]
