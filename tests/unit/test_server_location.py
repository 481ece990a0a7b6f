"""What names a graph server, which versions fit, and what a server's errors become; none of it repeats a secret."""

import traceback

import pytest
from neo4j.exceptions import Neo4jError

from waygraph.registry.graph.neo4j import ServerVersion
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.graph.neo4j_errors import ServerCall, our_error
from waygraph.registry.model.errors import (
    EngineError,
    InvalidSetting,
    ServerRefused,
    ServerUnavailable,
    StorageFailed,
    WaygraphError,
    WriteConflict,
)
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.location import open_store

SECRET = "s3cret-Tiger"  # noqa: S105 - of nobody
PLACE = "neo4j://host/neo4j"
ASKED = ServerCall(place=PLACE, database="neo4j", who="user 'neo4j'")


def parsed(location: str) -> ServerLocation:
    return ServerLocation.parse(location, "neo4j")


@pytest.mark.parametrize(
    ("location", "address", "database", "encrypted", "verified"),
    [
        ("neo4j://host", "neo4j://host", "neo4j", False, False),
        ("neo4j+s://host:7687/tools", "neo4j://host:7687", "tools", True, True),
        ("bolt+ssc://10.0.0.1/", "bolt://10.0.0.1", "neo4j", True, False),
        ("neo4j://[::1]:7687?policy=eu", "neo4j://[::1]:7687?policy=eu", "neo4j", False, False),
    ],
)
def test_a_url_names_server_database_and_encryption(
    location: str, address: str, database: str, encrypted: bool, verified: bool
) -> None:
    """Scheme, host and routing policy go to the driver; the rest is ours."""
    found = parsed(location)
    assert (found.address, found.database, found.encrypted, found.verified) == (address, database, encrypted, verified)


@pytest.mark.parametrize("location", ["bolt://one,two", "neo4j://one,", "neo4j://one,two:x", "neo4j://,"])
def test_a_list_of_hosts_is_refused(location: str) -> None:
    """One member of a cluster names the others."""
    with pytest.raises(InvalidSetting):
        parsed(location)


@pytest.mark.parametrize(
    "location",
    [
        f"neo4j://one,neo4j:{SECRET}@two",
        f"neo4j://one,two:{SECRET}",
        f"neo4j://neo4j:{SECRET}@host",
        f"bolt+s://neo4j:{SECRET}@host:7687/tools",
        f"neo4j://{SECRET}@host",
        f"neo4j://neo4j:a/{SECRET}@host",
        f"neo4j://neo4j:a#{SECRET}@host",
        f"neo4j://neo4j:a?{SECRET}@host",
        f"neo4j://neo4j:{SECRET}",
        f"neo4j://neo4j%3A{SECRET}%40host",
        f"neo4j://host?password={SECRET}",
        f"neo4j://host?token={SECRET}",
        f"neo4j://host?{SECRET}",
        f"bolt://host?policy={SECRET}",
        f"neo4j://host#{SECRET}",
        f"neo4j://host/tools/{SECRET}",
        f"neo4j://[{SECRET}",
        f"bolt+routing://neo4j:{SECRET}@host",
        f"https://neo4j:{SECRET}@host",
    ],
)
def test_what_is_refused_is_not_repeated(location: str) -> None:
    """A user, password or token anywhere in a URL, well-formed or not, is refused, and neither message nor traceback
    shows it."""
    with pytest.raises(InvalidSetting) as refused:
        open_store(location, Settings())
    told = "".join(traceback.format_exception(refused.value))
    assert SECRET not in told
    assert refused.value.__context__ is None


def test_settings_do_not_show_secrets() -> None:
    settings = Settings(neo4j_password=SECRET, neo4j_token=SECRET)
    assert SECRET not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        ("Neo4j/5.26.0", (5, 26)),
        ("Neo4j/5.27-aura", (5, 27)),
        ("Neo4j/2026.08.1", (2026, 8)),
        ("Neo4j/v4.4.33", (4, 4)),
        ("Memgraph", (0, 0)),
    ],
)
def test_a_version_is_read_from_what_a_server_calls_itself(agent: str, version: tuple[int, int]) -> None:
    """Numbered releases, calendar releases and Aura; what tells none is older than any."""
    assert ServerVersion.of_agent(agent) == version


NO_MEMORY = "Neo.TransientError.General.MemoryPoolOutOfMemoryError"


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("Neo.ClientError.Security.Forbidden", ServerRefused, "lacks a right"),
        ("Neo.ClientError.Security.TokenExpired", ServerRefused, "WAYGRAPH_NEO4J_TOKEN"),
        ("Neo.ClientError.Cluster.NotALeader", ServerUnavailable, "does not answer"),
        ("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase", ServerUnavailable, "does not answer"),
        ("Neo.TransientError.Database.DatabaseUnavailable", ServerUnavailable, "does not answer"),
        ("Neo.TransientError.Transaction.MaximumTransactionLimitReached", ServerUnavailable, "does not answer"),
        ("Neo.TransientError.Transaction.DeadlockDetected", WriteConflict, "another writer"),
        ("Neo.TransientError.Transaction.LockAcquisitionTimeout", WriteConflict, "another writer"),
        ("Neo.TransientError.General.OutOfMemoryError", StorageFailed, "no room"),
        ("Neo.TransientError.General.OutOfDiskSpace", StorageFailed, "no room"),
        ("Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration", EngineError, "WRITE_TIMEOUT_S"),
        ("Neo.ClientError.Statement.SyntaxError", EngineError, "read/agents"),
    ],
)
def test_an_error_of_the_server_is_one_of_ours(code: str, kind: type[WaygraphError], told: str) -> None:
    """Each by what the caller can do about it; the server's own words are in it."""
    error = our_error(answered(code), ASKED, "read/agents")
    assert type(error) is kind
    assert told in str(error)
    assert "as the server put it" in str(error)


def test_memory_that_others_hold_is_waited_for_by_readers() -> None:
    """What all transactions share is free again soon; a write may be what fills it, and a small limit stays small."""
    crowded = answered(NO_MEMORY, "dbms.memory.transaction.total.max threshold")
    assert type(our_error(crowded, ASKED, "read/agents", reads=True)) is ServerUnavailable
    assert type(our_error(crowded, ASKED, "sync/put_agents")) is StorageFailed
    narrow = answered(NO_MEMORY, "db.memory.transaction.max threshold")
    assert type(our_error(narrow, ASKED, "read/agents", reads=True)) is StorageFailed


def answered(code: str, message: str = "as the server put it") -> Neo4jError:
    """As the driver raises it."""
    return Neo4jError._hydrate_neo4j(code=code, message=message)
