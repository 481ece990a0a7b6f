"""The formats of an export, and the one call that writes them."""

from typing import Literal, get_args

from waygraph.registry.errors import UnknownName
from waygraph.registry.export.contents import read_agent_vectors, read_contents
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

            with registry.reading() as session:
                return as_json(read_contents(session))
        case "graphml":
            from waygraph.registry.export.as_graphml import as_graphml

            with registry.reading() as session:
                return as_graphml(read_contents(session))
        case "html":
            from waygraph.registry.export.as_page import as_page

            with registry.reading() as session:
                contents = read_contents(session)
                return as_page(contents, read_agent_vectors(session, contents))
        case _:
            raise UnknownName("export format", format, FORMATS)
