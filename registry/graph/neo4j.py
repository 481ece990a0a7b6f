"""The server engine: a Neo4j database, alone, in a cluster or hosted, over the official driver.

One driver a process and address. Every session shares its bookmarks, so that a read sees what this process wrote,
whichever member of a cluster answers.
"""

import logging
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Literal, NamedTuple, cast

from neo4j import (
    Bookmarks,
    GraphDatabase,
    Query,
    TrustAll,
    TrustCustomCAs,
    TrustSystemCAs,
    basic_auth,
    bearer_auth,
    unit_of_work,
)
from neo4j.exceptions import ConfigurationError
from neo4j.graph import Node, Path, Relationship
from neo4j.time import Date, DateTime, Duration, Time

from waygraph.cypher import Statement
from waygraph.registry.graph.engine import CommitMark, Gate, GraphSession, Rows, check_params
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.graph.neo4j_errors import (
    CONNECTION_LOSSES,
    DRIVERS,
    FOREIGN,
    Kinds,
    ServerCall,
    is_defined_meanwhile,
    may_pass,
    our_error,
)
from waygraph.registry.model import errors
from waygraph.registry.model.settings import Settings

OLDEST = (5, 26)
"""The oldest server that is tested: vector indexes as they are now, and long-term support."""
IN_INDEX_FILTERS = (2026, 6)
"""From here on `SEARCH … WHERE` filters by membership in a list."""
RETRY_S = 15.0
"""How long a transaction that writes is tried again after an error that may pass."""
CONNECTIONS_TRIED, POOL_SIZE = 3, 32
TYPED_ROWS_FETCHED = 100
"""Rows of a typed statement that the server sends before it is asked for more."""
CHECKED_AFTER_IDLE_S = 5.0
"""A connection of the pool that nobody used for so long is asked whether it still lives before it is used."""
CLOSED_AFTER_S = 5.0
SILENT: Literal["OFF"] = "OFF"
"""The server's notes on statements: an unknown label is no news in a registry that is not made yet."""
_NOWHERE = logging.NullHandler()


class ServerVersion(NamedTuple):
    major: int
    minor: int

    @classmethod
    def of_agent(cls, agent: str) -> "ServerVersion":
        """From what a server calls itself, such as `Neo4j/2026.08.1` or `Neo4j/5.27-aura`; (0, 0) if it tells none."""
        match = re.search(r"/v?(\d+)\.(\d+)", agent)
        return cls(int(match[1]), int(match[2])) if match else cls(0, 0)


class Neo4jEngine:
    """Implements GraphEngine over `neo4j`."""

    def __init__(
        self, driver: Any, location: ServerLocation, settings: Settings, bookmarks: Iterable[str] = ()
    ) -> None:
        self._driver, self._settings, self.location = driver, settings, location
        self._bookmarks = GraphDatabase.bookmark_manager(Bookmarks.from_raw_values(bookmarks))
        self._version: ServerVersion | None = None
        self._gate = Gate()
        self._call = ServerCall.by(settings, place=location.place, database=location.database)
        self.place, self.database = location.place, location.database

    @classmethod
    def open(cls, location: ServerLocation, settings: Settings, bookmarks: Iterable[str] = ()) -> "Neo4jEngine":
        """Nothing is asked of the server yet. Raises InvalidSetting, ServerRefused for what the driver cannot take.

        `bookmarks` are another engine's: this one sees what that one wrote.
        """
        # What it logs is said again by the errors: without a handler of the user's own nothing goes to stderr.
        logging.getLogger("neo4j").addHandler(_NOWHERE)
        auth, encryption = None, dict[str, Any]()
        if settings.neo4j_token:
            auth = bearer_auth(settings.neo4j_token)
        elif settings.neo4j_password:
            auth = basic_auth(settings.neo4j_user, settings.neo4j_password)
        if location.encrypted:
            trust = _trust_ca(settings.neo4j_ca_file) if location.verified else TrustAll()
            encryption = {"encrypted": True, "trusted_certificates": trust}
        try:
            driver: Any = GraphDatabase.driver(
                location.address,
                auth=auth,
                connection_timeout=settings.neo4j_connect_timeout_s,
                # Also the limit of the handshakes that follow a connection, which somebody else may never answer.
                connection_acquisition_timeout=2 * settings.neo4j_connect_timeout_s,
                # Pauses double: the last one may be as long as all before it.
                max_transaction_retry_time=RETRY_S / 2,
                max_connection_pool_size=POOL_SIZE,
                liveness_check_timeout=CHECKED_AFTER_IDLE_S,
                notifications_min_severity=SILENT,
                keep_alive=True,
                **encryption,
            )
        except (ConfigurationError, ValueError) as exc:
            raise errors.ServerRefused(location.place, f"the driver cannot use this address: {exc}") from exc
        return cls(driver, location, settings, bookmarks)

    # -- statements --------------------------------------------------------------------------------

    def run(self, statement: Statement, /, **params: object) -> Rows:
        """One that writes is tried again for RETRY_S after an error that may pass, one that reads as below."""
        if not statement.writes:
            return self.run_at_once(statement, params)
        check_params(statement, params)
        work = self._manage(lambda session: session.run(statement, **params))
        with self._gate, self._translate_errors(statement), self._session(writes=True) as session:
            return cast("Rows", session.execute_write(work))

    def run_at_once(self, statement: Statement, params: Mapping[str, object]) -> Rows:
        """In one round trip. Where a connection had died it is tried again at once: what it writes must bear that."""
        with self._gate:
            return self._run_at_once(statement, params)

    def _run_at_once(self, statement: Statement, params: Mapping[str, object]) -> Rows:
        check_params(statement, params)
        query = Query(statement.neo4j_text, timeout=self._timeout_s(writes=statement.writes))

        def ask() -> Rows:
            with self._translate_errors(statement), self._session(writes=statement.writes) as session:
                return _rows(session.run(query, params))

        return self._try_again(ask)

    def read_once(self, statement: Statement, params: Mapping[str, object]) -> dict[str, Any] | None:
        """The one row of a reading statement, None if there is none. For the hot path."""
        rows = self.run_at_once(statement, params)
        return rows[0] if rows else None

    def _try_again[T](self, ask: Callable[[], T]) -> T:
        """Asked on another connection where one had died, unless to find that out took long."""
        give_up = time.monotonic() + self._settings.neo4j_connect_timeout_s
        for _ in range(CONNECTIONS_TRIED - 1):
            try:
                return ask()
            except errors.ServerUnavailable as exc:
                if not isinstance(exc.__cause__, CONNECTION_LOSSES) or time.monotonic() > give_up:
                    raise
        return ask()

    @property
    def read_timeout_s(self) -> float:
        return self._settings.neo4j_read_timeout_s

    def reading(self) -> AbstractContextManager[GraphSession]:
        """One reading transaction. Neo4j gives no snapshot: what others commit meanwhile is seen."""
        return self._in_transaction(writes=False)

    def transaction(self) -> AbstractContextManager[GraphSession]:
        return self._in_transaction(writes=True)

    @contextmanager
    def _in_transaction(self, *, writes: bool) -> Iterator[GraphSession]:
        with self._gate, self._translate_errors(kinds=DRIVERS), ExitStack() as stack:
            transaction = self._try_again(lambda: self._begin(stack, writes=writes))
            yield _Transaction(transaction, self)
            transaction.commit()

    def _begin(self, stack: ExitStack, *, writes: bool) -> Any:
        """A transaction of a session of its own, both closed with the stack."""
        with self._translate_errors():
            session = stack.enter_context(self._session(writes=writes))
            return stack.enter_context(session.begin_transaction(timeout=self._timeout_s(writes=writes)))

    @contextmanager
    def begin_typed(self, timeout_s: float, mark: Mapping[str, str]) -> Iterator["TypedTransaction"]:
        """For a statement that is no file of ours: a reading transaction, rolled back at the end of the block.

        `SHOW TRANSACTIONS` tells its `mark` as metadata.
        """
        with (
            self._gate,
            self._translate_errors(),
            self._session(writes=False, fetch_size=TYPED_ROWS_FETCHED) as session,
            session.begin_transaction(timeout=timeout_s, metadata=dict(mark)) as transaction,
        ):
            yield TypedTransaction(transaction)

    def bookmarks(self) -> list[str]:
        """What names the writes that this engine has seen."""
        return sorted(self._bookmarks.get_bookmarks())

    def write[T](self, work: Callable[[GraphSession], T]) -> T:
        commit = CommitMark(self._run_at_once)

        def run_marked(session: GraphSession) -> T:
            result = work(session)
            commit.begin()
            return result

        with self._gate, self._translate_errors(kinds=DRIVERS), self._session(writes=True) as session, commit:
            return cast("T", session.execute_write(self._manage(run_marked)))

    def _manage[T](self, work: Callable[[GraphSession], T]) -> Callable[[Any], T]:
        """`work` for the driver, which waits and begins again where it is told of an error of its own that may pass."""

        @unit_of_work(timeout=self._timeout_s(writes=True))
        def once(transaction: Any) -> T:
            try:
                return work(_Transaction(transaction, self))
            except errors.RegistryError as exc:
                error = exc
            raise error.__cause__ if error.__cause__ and may_pass(error.__cause__) else error

        return once

    def define(self, statement: Statement, /, **params: object) -> None:
        try:
            self.run(statement, **params)
        except errors.EngineError as exc:
            # `IF NOT EXISTS` does not see what another process is defining at the same time.
            if not is_defined_meanwhile(exc.__cause__):
                raise

    @property
    def version(self) -> ServerVersion:
        """Asked for once. Raises ServerRefused for a server that is too old, ServerUnavailable."""
        if self._version is None:
            with self._gate, self._translate_errors():
                agent = self._driver.get_server_info().agent
            version = ServerVersion.of_agent(agent)
            if version < OLDEST:
                oldest = ".".join(map(str, OLDEST))
                raise errors.ServerRefused(self.place, f"{agent} is too old: Waygraph needs Neo4j {oldest} or later")
            self._version = version
        return self._version

    def close(self) -> None:
        """Waits a little for what other threads have in hand."""
        self._gate.close(CLOSED_AFTER_S)
        self._driver.close()

    # -- inside ------------------------------------------------------------------------------------

    def _session(self, *, writes: bool, **options: int) -> Any:
        mode, bookmarks = "WRITE" if writes else "READ", self._bookmarks
        return self._driver.session(
            database=self.database, default_access_mode=mode, bookmark_manager=bookmarks, **options
        )

    def _timeout_s(self, *, writes: bool) -> float:
        return self._settings.neo4j_write_timeout_s if writes else self.read_timeout_s

    @contextmanager
    def _translate_errors(self, statement: Statement | None = None, *, kinds: Kinds = FOREIGN) -> Iterator[None]:
        try:
            yield
        except kinds as exc:
            raise self.error(exc, statement) from exc

    def error(self, exc: Exception, statement: Statement | None = None) -> errors.RegistryError:
        """Ours for one of the driver's. Whatever it says after `close`, that is the reason."""
        if self._gate.closed:
            return errors.RegistryClosed()
        name, reads = (statement.name, not statement.writes) if statement else ("", False)
        return our_error(exc, self._call, name, reads=reads)


class _Transaction:
    def __init__(self, transaction: Any, engine: Neo4jEngine) -> None:
        self._transaction, self._engine = transaction, engine

    def run(self, statement: Statement, /, **params: object) -> Rows:
        check_params(statement, params)
        try:
            return _rows(self._transaction.run(statement.neo4j_text, params))
        except FOREIGN as exc:
            raise self._engine.error(exc, statement) from exc


class Plan(NamedTuple):
    """`kind`: "r" reads, "w" and "rw" write, "s" is of the schema or of the server. Operators with their details."""

    kind: str
    operators: tuple[tuple[str, str], ...]


class TypedTransaction:
    """Runs what somebody typed, as it stands."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def plan(self, statement: str, params: Mapping[str, object]) -> Plan:
        """What the server would do. Errors count lines from one before the statement."""
        summary = self._transaction.run("EXPLAIN\n" + statement, dict(params)).consume()
        return Plan(str(summary.query_type), tuple(_operators(summary.plan or {})))

    def run(self, statement: str, params: Mapping[str, object]) -> tuple[list[str], Iterator[list[object]]]:
        """Columns, and rows as they are asked for; values as the embedded engine gives them."""
        result = self._transaction.run(statement, dict(params))
        return list(result.keys()), ([as_embedded(value) for value in record.values()] for record in result)


def _operators(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "operatorType" in plan:
        yield plan["operatorType"].partition("@")[0], str(plan.get("args", {}).get("Details", ""))
    for part in plan.get("children", ()):
        yield from _operators(part)


def as_embedded(value: object) -> object:
    """Nodes, edges, paths and times in the form that the embedded engine gives them in; anything else as it is."""
    match value:
        case Node() | Relationship():
            return {key: as_embedded(value[key]) for key in sorted(value.keys())} | _identity(value)
        case Path():
            return {"nodes": [*map(as_embedded, value.nodes)], "edges": [*map(as_embedded, value.relationships)]}
        case dict():
            return {key: as_embedded(part) for key, part in value.items()}
        case list():
            return [as_embedded(part) for part in value]
    if isinstance(value, Duration):
        nanos = value.seconds * 1_000_000_000 + value.nanoseconds
        return {"months": value.months, "days": value.days, "nanos": nanos}
    return value.to_native() if isinstance(value, Date | DateTime | Time) else value


def _identity(entity: Node | Relationship) -> dict[str, object]:
    if isinstance(entity, Node):
        return {"_id": entity.element_id, "_labels": sorted(entity.labels)}
    ends = [node.element_id if node else None for node in (entity.start_node, entity.end_node)]
    return {"_id": entity.element_id, "_type": entity.type, "_source": ends[0], "_target": ends[1]}


def _rows(result: Any) -> Rows:
    columns = result.keys()
    return [dict(zip(columns, record.values(), strict=True)) for record in result]


def _trust_ca(ca_file: str) -> TrustCustomCAs | TrustSystemCAs:
    """The driver would look into the file only when it connects. Raises InvalidSetting."""
    if not ca_file:
        return TrustSystemCAs()
    try:
        ssl.create_default_context(cafile=ca_file)
    except OSError as exc:
        raise errors.InvalidSetting(f"WAYGRAPH_NEO4J_CA_FILE={ca_file!r} holds no certificates: {exc}") from exc
    return TrustCustomCAs(ca_file)
