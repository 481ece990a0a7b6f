"""The places that a registry may live in, for the tests that hold in every one of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from neo4j import Driver, GraphDatabase

from tests.neo4j_fixtures import SERVERS, empty
from tests.neo4j_server import DATABASE, Target
from waygraph.registry.graph.neo4j import Neo4jEngine
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.model.settings import Settings

PLACES = ("grafeo file", *SERVERS)

Servers = Callable[[str], Target]
Clear = Callable[[Driver], None]


@dataclass(frozen=True)
class Place:
    """An empty place, and the settings to open it with."""

    location: str | Path
    settings: Settings


def new_place(
    name: str, folder: Path, servers: Servers, settings: Settings | None = None, *, clear: Clear = empty
) -> Place:
    """`name` is one of PLACES; a server is emptied. `clear=wipe` for what only a server without any schema shows."""
    settings = settings or Settings(cypher_timeout_s=60.0)  # a busy machine takes seconds to start a worker
    if name.startswith("neo4j"):
        return on_server(servers(name.removeprefix("neo4j ")), settings, clear=clear)
    return Place(folder / "r.grafeo", settings)


def on_server(target: Target, settings: Settings, *, clear: Clear = empty) -> Place:
    """The server's database, without a node. The schema of a registry that was there may be left."""
    with GraphDatabase.driver(target.uri, auth=target.auth) as driver:
        clear(driver)
    user, password = target.auth or ("neo4j", "")
    known = replace(settings, neo4j_user=user, neo4j_password=password, neo4j_database=DATABASE)
    return Place(target.uri, known)


def server_engine(place: Place) -> Neo4jEngine:
    return Neo4jEngine.open(ServerLocation.parse(str(place.location), DATABASE), place.settings)
