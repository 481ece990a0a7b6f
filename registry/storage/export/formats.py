"""The formats of an export, and the one call that writes them."""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.storage.snapshot import read_contents, read_contents_and_vectors

ExportFormat = Literal["json", "graphml", "html"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


class Readable(Protocol):
    """What one revision can be read of: a registry or its store."""

    def read[T](self, work: Callable[[GraphSession], T]) -> T: ...


def export(registry: Readable, format: ExportFormat) -> str:  # noqa: A002 - what every caller calls it
    """The published revision as text. The same revision gives the same text.

    `json` holds what sources state, and apart from it what operators said; `graphml` and `html` show what holds
    now. Raises UnknownName, RegistryNotFound.
    """
    # networkx is imported only by the formats that need it.
    match format:
        case "json":
            from waygraph.registry.storage.export.json_export import as_json

            return as_json(registry.read(read_contents))
        case "graphml":
            from waygraph.registry.storage.export.graphml import as_graphml

            return as_graphml(registry.read(read_contents))
        case "html":
            from waygraph.registry.storage.export.page import as_page

            return as_page(*registry.read(read_contents_and_vectors))
        case _:
            raise UnknownName("export format", format, FORMATS)
