"""The formats of an export, and the one call that writes them."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.model.changes import SourceSummary
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.storage.snapshot import Contents, read_contents, read_contents_and_vectors

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.DiGraph[str]

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
    match format:
        case "json":
            from waygraph.registry.storage.export.json_export import as_json

            return as_json(registry.read(read_contents))
        case "graphml":
            return as_graphml(registry.read(read_contents))
        case "html":
            from waygraph.registry.storage.export.page import as_page

            return as_page(*registry.read(read_contents_and_vectors))
        case _:
            raise UnknownName("export format", format, FORMATS)


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_graphml(contents: Contents) -> str:
    """GraphML for Gephi, yEd, Cytoscape and networkx: agents, tools, sources, who owns and who claims. No vectors."""
    import networkx as nx

    return "\n".join(nx.generate_graphml(graph_of(contents), named_key_ids=True)) + "\n"


def graph_of(contents: Contents) -> "Graph":
    """Nodes `agent:<id>`, `tool:<id>`, `source:<name>`; edges of type OWNS and CLAIMS."""
    import networkx as nx

    graph: Graph = nx.DiGraph(revision=contents.revision)
    for agent in contents.agents_as_they_hold():
        _add_agent(graph, agent)
    for tool in contents.tools:
        _add_tool(graph, tool)
    for source in contents.sources:
        _add_source(graph, source)
    return graph


def _add_agent(graph: "Graph", agent: Agent) -> None:
    graph.add_node(
        node("agent", agent.id),
        type="Agent",
        label=xml_text(agent.name),
        description=xml_text(agent.description),
        kind=agent.kind,
        version=xml_text(agent.version),
        tags=xml_text(", ".join(agent.tags)),
        pinned=agent.pinned,
        hidden=agent.hidden,
    )


def _add_tool(graph: "Graph", tool: Tool) -> None:
    name = node("tool", tool.id)
    graph.add_node(
        name,
        type="Tool",
        label=xml_text(tool.name),
        description=xml_text(tool.description),
        call_name=tool.call_name,
        tags=xml_text(", ".join(tool.tags)),
    )
    graph.add_edge(node("agent", tool.agent_id), name, type="OWNS")


def _add_source(graph: "Graph", source: SourceSummary) -> None:
    name = node("source", source.name)
    graph.add_node(name, type="Source", label=xml_text(source.name), rank=source.rank)
    for key, agent_id in source.claims:
        graph.add_edge(name, node("agent", agent_id), type="CLAIMS", key=xml_text(key))


def node(kind: str, identity: str) -> str:
    """The node's name. What XML cannot hold is spelled out, so that different things keep different names."""
    return f"{kind}:{_NOT_XML.sub(lambda found: f'\\u{ord(found[0]):04x}', identity)}"


def xml_text(text: str) -> str:
    """The text without the control characters that XML cannot hold."""
    return _NOT_XML.sub("", text)
