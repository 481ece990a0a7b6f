"""The formats of an export, and the one call that writes them."""

from typing import Literal, get_args

from waygraph.registry.errors import UnknownName
from waygraph.registry.export.contents import read_contents, read_contents_and_vectors
from waygraph.registry.registry import Registry

ExportFormat = Literal["json", "graphml", "html"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


def export(registry: Registry, format: ExportFormat) -> str:  # noqa: A002 - what every caller calls it
    """The published revision as text. The same revision gives the same text.

    `json` holds what sources state, and apart from it what operators said; `graphml` and `html` show what holds
    now. Raises UnknownName, RegistryNotFound.
    """
    # networkx is imported only by the formats that need it.
    match format:
        case "json":
            from waygraph.registry.export.as_json import as_json

            return as_json(registry.read(read_contents))
        case "graphml":
            from waygraph.registry.export.as_graphml import as_graphml

            return as_graphml(registry.read(read_contents))
        case "html":
            from waygraph.registry.export.as_page import as_page

            return as_page(*registry.read(read_contents_and_vectors))
        case _:
            raise UnknownName("export format", format, FORMATS)
