"""What a service lets through of a store: its place, whether it holds a registry, and typed Cypher.

All else of a store is the graph and the index themselves, which stay where the service is.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Never

from waygraph.registry.errors import NeedsRegistry, RegistryNotFound
from waygraph.registry.remote import calls

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.graph.sandbox import CypherResult
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.remote.connection import Connection
    from waygraph.registry.storage.filling import Origin


class ServiceStore:
    """A `Store`; where it needs the registry itself it raises NeedsRegistry."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def place(self) -> str:
        return self._connection.place

    @property
    def exists(self) -> bool:
        try:
            self._connection.ask(calls.status(self.place, None))
        except RegistryNotFound:
            return False
        return True

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        return self._connection.ask(calls.cypher(statement, params))

    def close(self) -> None:
        self._connection.close()

    def index(self, *, fresh: bool = False) -> "SearchIndex":  # noqa: ARG002
        return self._refuse()

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:  # noqa: ARG002
        return self._refuse()

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:  # noqa: ARG002
        return self._refuse()

    def writing(self, *, trust_index: bool = True) -> Never:  # noqa: ARG002
        self._refuse()

    def filling(self, origin: "Origin") -> Never:  # noqa: ARG002
        self._refuse()

    def _refuse(self) -> Never:
        raise NeedsRegistry(self.place)
