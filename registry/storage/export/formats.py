"""The formats of an export, the one call that writes them, and the AI catalogue of a service.

The agents as the MCP registry lists servers (its API v0.1, `server.json` of 2025-12-11), so that hosts and other
registries read this one as they read that.
"""

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from waygraph.registry.graph.contents import Contents
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import AgentEntry, SourceSummary
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, JsonText, Tool, parse_field
from waygraph.registry.operations.request import ExportFormat
from waygraph.registry.storage.noun_list import EXPORTED_NOUNS

if TYPE_CHECKING:
    import networkx as nx

    from waygraph.registry.storage.store import GraphAccess
    from waygraph.registry.taxonomy.category_names import EmbedNames

    Graph = nx.DiGraph[str]


def export(registry: "GraphAccess", format: ExportFormat, embed: "EmbedNames | None" = None) -> str:  # noqa: A002 - what every caller calls it
    """The revision that lists show, as text. The same revision gives the same text.

    `json` holds what sources state, and apart from it what operators said; `graphml` and `html` show what holds
    now. Raises RegistryNotFound.
    """
    if format == "html":
        return as_page(registry, embed)
    contents = registry.store.contents("state", "agents", "tools", "sources", "settings")
    return as_json(contents) if format == "json" else as_graphml(contents)


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_graphml(contents: Contents) -> str:
    """GraphML for Gephi, yEd, Cytoscape and networkx: agents, tools, sources, who owns and who claims. No vectors."""
    import networkx as nx

    return "\n".join(nx.generate_graphml(graph_of(contents), named_key_ids=True)) + "\n"


def graph_of(contents: Contents) -> "Graph":
    """Nodes `agent:<id>`, `tool:<id>`, `source:<name>`; edges of type OWNS and CLAIMS."""
    import networkx as nx

    graph: Graph = nx.DiGraph(revision=contents.state.revision)
    for agent in contents.overlaid_agents.values():
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
    for tool in (item.tool for item in contents.tools):
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
    for source in contents.sources:
        name = node("source", source.name)
        graph.add_node(name, type="Source", label=xml_text(source.name), rank=source.rank)
        for key, agent_id in source.claims:
            graph.add_edge(name, node("agent", agent_id), type="CLAIMS", key=xml_text(key))
    return graph


def node(kind: str, identity: str) -> str:
    """The node's name. What XML cannot hold is spelled out, so that different things keep different names."""
    return f"{kind}:{_NOT_XML.sub(lambda match: f'\\u{ord(match[0]):04x}', identity)}"


def xml_text(text: str) -> str:
    """The text without the control characters that XML cannot hold."""
    return _NOT_XML.sub("", text)


FORMAT_VERSION = 1


def as_json(contents: Contents) -> str:
    """For `waygraph ingest`: every source's manifest, and what operators had set. An agent is one line.

    Reader: `ingest/sources/formats/catalogue.py`.
    """
    tools_by_agent = contents.tools_by_agent()
    agents = [item.agent for item in contents.agents.values()]
    entities: list[Agent | Tool] = [*agents, *(item.tool for item in contents.tools)]
    doubtful = [each for each in entities if each.pending or each.approved_hash or each.flags]
    parts = [
        f'"waygraph_export": {FORMAT_VERSION}',
        f'"revision": {contents.state.revision}',
        f'"agents": {_lines(_agent(agent, tools_by_agent[agent.id]) for agent in agents)}',
        f'"sources": {_lines(_source(source) for source in contents.sources)}',
        f'"operator": {_lines(shapes.shape(setting) for setting in contents.settings.values())}',
        # Whether it waits, and what of it was approved or looked suspicious: also of files, which are not here.
        f'"approval": {_lines(_fields(each, _APPROVAL) for each in doubtful)}',
    ]
    values = {noun.name: list(map(noun.as_export, contents.values(noun))) for noun in EXPORTED_NOUNS}
    parts += [f'"{name}": {_lines(documents)}' for name, documents in values.items() if documents]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: Iterable[object]) -> str:
    """A JSON list with a line for each row."""
    texts = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
    return "[\n" + ",\n".join(texts) + "\n]" if texts else "[]"


def as_catalogue(entry: AgentEntry) -> dict[str, object]:
    """An entry as a catalogue has it, under its source's own key."""
    document = _agent(entry.agent, entry.tools, entry.hidden_tools)
    return document | {"id": entry.key} | ({"asked": False} if entry.unasked else {})


def _agent(agent: Agent, tools: Sequence[Tool], hidden_tools: Collection[str] = ()) -> dict[str, object]:
    """In the words of a catalogue, `docs/sources.md`."""
    return {
        **_fields(agent, ("id", "name", "description", "kind", "version")),
        "transport": parse_field(agent.transport),
        "tags": agent.tags,
        "visible_to": agent.visible_to,
        "tools": [_tool(tool) | ({"hide": True} if tool.name in hidden_tools else {}) for tool in tools],
    }


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": parse_field(tool.input_schema),
        "outputSchema": parse_field(tool.output_schema),
        "annotations": parse_field(tool.annotations),
        "tags": tool.tags,
        **({"questions": tool.questions} if tool.questions else {}),
    }


def _source(source: SourceSummary) -> dict[str, object]:
    terms = ("name", "namespace", "rank", "policy", *(("owner",) if source.owner else ()), "claims")
    return _fields(source, terms)


_APPROVAL = ("id", "pending", "approved_hash", "flags")


# The document of `/.well-known/ai-catalog.json`: AI Catalog 1.0, with a host (its conformance level 2).
#
# Specification: Agent-Card/ai-catalog, specification/ai-catalog.md. Media type: `application/ai-catalog+json`.


MEDIA_TYPE = "application/ai-catalog+json"
AGENT_TYPE = "application/vnd.waygraph.agent+json"
REGISTRY_TYPE = "application/ai-registry+json"
CARD_TYPE = "application/mcp-server-card+json"
GATEWAY_CALLS = "Finds the agents and tools that can do what is asked for, and calls them."
OPENAPI_TYPE = "application/vnd.oai.openapi+json"
SPEC_VERSION = "1.0"


def ai_catalog(agents: Iterable[Agent], host_name: str, base_url: str, *, gateway: bool = False) -> dict[str, Any]:
    """The service itself, its search and its gateway, if it has one, then the agents, in the order given: those that
    the asker may see. It is a manifest of Agentic Resource Discovery 0.91 as well.

    `host_name` is for people; `base_url` is where the service is reached from outside, with or without a slash at its
    end. Raises InvalidSetting for one that has no host: what names an entry begins with it.
    """
    publisher, base = _address(base_url)
    serves = "Finds the agents, and which of their tools, that can do what is asked for."
    searches = "Searches this catalogue (Agentic Resource Discovery 0.91)."
    own = [
        {
            "identifier": _identifier(publisher, kind, "waygraph"),
            "type": media_type,
            "url": f"{base}/{path}",
            "displayName": host_name,
            "description": description,
        }
        for kind, media_type, path, description in (
            ("service", OPENAPI_TYPE, "openapi.json", serves),
            ("registry", REGISTRY_TYPE, "ard", searches),
            *((("mcp_server", CARD_TYPE, "mcp/server-card", GATEWAY_CALLS),) if gateway else ()),
        )
    ]
    entries = [*own, *(_entry(agent, publisher, base) for agent in agents)]
    return {"specVersion": SPEC_VERSION, "host": {"displayName": host_name}, "entries": entries}


def catalog_entry(agent: Agent, base_url: str) -> dict[str, Any]:
    """Of the catalogue. Raises InvalidSetting, as `ai_catalog`."""
    return _entry(agent, *_address(base_url))


def fits_entry(entry: Mapping[str, Any], filters: Mapping[str, str | list[str]]) -> bool:
    """Whether the entry has one of the values at each path, such as `tags`; `publisher` is that of its identifier.

    Source: Agentic Resource Discovery 0.9, 7.1.
    """
    fields = {**entry, "publisher": unquote(str(entry["identifier"]).split(":")[2])}
    values_by_path = {path: [values] if isinstance(values, str) else values for path, values in filters.items()}
    return all(not set(values).isdisjoint(_values_at(fields, path)) for path, values in values_by_path.items())


def _values_at(data: Any, path: str) -> list[str]:
    name, _, rest = path.partition(".")
    values = data.get(name, []) if isinstance(data, dict) else []
    if rest:
        return [
            value for each in (values if isinstance(values, list) else [values]) for value in _values_at(each, rest)
        ]
    return [str(value) for value in (values if isinstance(values, list) else [values])]


def _address(base_url: str) -> tuple[str, str]:
    """Host, and URL without a slash at its end; without user and password. Raises InvalidSetting."""
    try:
        url = urlsplit(base_url)
    except ValueError:  # brackets that hold no address
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidSetting("an AI catalogue needs the service's address, such as https://tools.example")
    place = url.netloc.rpartition("@")[2]
    return url.hostname, f"{url.scheme}://{place}{url.path.rstrip('/')}"


def _entry(agent: Agent, publisher: str, base: str) -> dict[str, Any]:
    # An identifier below the own host: what the entry leads to is this registry's record, which it publishes itself.
    entry = {
        "identifier": _identifier(publisher, agent.kind, agent.id),
        "type": AGENT_TYPE,
        "url": f"{base}/v1/agents/{quote(agent.id, safe='')}",
        "displayName": agent.name,
        "description": agent.description,
        "tags": list(agent.tags),
        "version": agent.version,
    }
    return {name: value for name, value in entry.items() if value}


def _identifier(*parts: str) -> str:
    """`urn:air:<publisher>:<kind>:<id>`: different parts make different URNs, and can be read back from them."""
    return ":".join(("urn", "air", *(quote(part, safe="") for part in parts)))


SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
MAX_DESCRIPTION_CHARS = 100
"""Of a server.json, by its schema."""
NO_VERSION = "0.0.0"
"""Of an agent that states none; the schema requires one."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_SHORT_HASH_CHARS = 8


def servers(agents: Iterable[tuple[Agent, JsonText]], base_url: str, *, gateway: bool) -> Iterator[dict[str, Any]]:
    """The gateway, if the service has one, then each MCP server that does not wait for approval; by name.

    `agents`: with what the asker may read of their transports. `base_url`: where the service is reached from outside,
    without a slash at its end. Each is named below the own host, as what is told of it is this registry's word.
    """
    namespace = _namespace(base_url)
    entries = [
        _listed_server(
            f"{namespace}/{_legal(agent.id)}", agent.name, agent.description, agent.version, _remote(transport)
        )
        for agent, transport in agents
        if agent.kind == "mcp_server" and not agent.pending
    ]
    entries.sort(key=lambda entry: entry["server"]["name"])
    if gateway:
        yield _listed_gateway(base_url)
    yield from entries


def server_card(base_url: str) -> dict[str, Any]:
    """Of the gateway, by the extension of MCP for Server Cards (SEP-2127)."""
    return {**_listed_gateway(base_url)["server"], "$schema": CARD_SCHEMA}


def _listed_gateway(base_url: str) -> dict[str, Any]:
    remote = {"type": "streamable-http", "url": f"{base_url}/mcp"}
    return _listed_server(f"{_namespace(base_url)}/-waygraph", "Waygraph", GATEWAY_CALLS, version("waygraph"), remote)


def _namespace(base_url: str) -> str:
    return ".".join(reversed((urlsplit(base_url).hostname or "localhost").replace(":", "-").split(".")))


def _legal(agent_id: str) -> str:
    """The id, if the format allows it; else what is legal of it and a short hash, so that no two become one."""
    legal = _ILLEGAL.sub("_", agent_id)
    return legal if legal == agent_id else f"{legal}_{digest(agent_id)[:_SHORT_HASH_CHARS]}"


def _remote(transport: JsonText) -> dict[str, str] | None:
    """None where there is no address, or none that the asker may read. Headers are never told."""
    fields = parse_field(transport)
    url = fields.get("url") if isinstance(fields, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    return {"type": "sse" if fields.get("type") == "sse" else "streamable-http", "url": url}


def _listed_server(
    name: str, title: str, description: str, stated_version: str, remote: dict[str, str] | None
) -> dict[str, Any]:
    brief = description if len(description) <= MAX_DESCRIPTION_CHARS else f"{description[: MAX_DESCRIPTION_CHARS - 1]}…"
    server = {
        "$schema": SCHEMA,
        "name": name,
        "title": title,
        "description": brief or title,
        "version": stated_version or NO_VERSION,
        **({"remotes": [remote]} if remote else {}),
    }
    return {"server": server, "_meta": {OFFICIAL: {"status": "active", "isLatest": True}}}


POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element or begin another, and how a JSON text says it otherwise."""


def as_page(registry: "GraphAccess", embed: "EmbedNames | None") -> str:
    """The map as one HTML page, drawn as for a caller who sees everything. `embed`: as `lay_out_map` takes it, for
    float32 of shape (names, dimension).
    """
    style, script = _asset("page.css"), _asset("drawing.js") + _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=POLICY.format(script=_digest(script), style=_digest(style)),
        style=style,
        script=script,
        data=json_in_html(_page_data(registry, embed)),
    )


def json_in_html(value: object) -> str:
    """JSON that cannot end the element it stands in, nor begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


def _page_data(registry: "GraphAccess", embed: "EmbedNames | None") -> dict[str, Any]:
    """What page.js reads: the map, and all that is told of what stands on it."""
    from waygraph.registry.storage.export.map import lay_out_map, read_map

    parts, sources = registry.look(lambda index: (read_map(index, None), index.sources()))
    map_data = lay_out_map(parts, embed)
    tools = [tool for owned in parts.tools_by_agent.values() for tool in owned]
    agent_fields = ("description", "version", "transport", "visible_to")
    tool_fields = ("description", "input_schema", "output_schema", "annotations")
    return {
        **asdict(map_data),
        "agents": [
            asdict(each) | _fields(agent, agent_fields)
            for each, agent in zip(map_data.agents, parts.agents, strict=True)
        ],
        "tools": [asdict(each) | _fields(tool, tool_fields) for each, tool in zip(map_data.tools, tools, strict=True)],
        "sources": [{"name": source.name, "seen": source.seen_at, "agents": source.agent_ids} for source in sources],
    }


def _fields(noun: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(noun, name) for name in names}


def _asset(name: str) -> str:
    return files("waygraph.registry.storage.export").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """As a content security policy names an inline element."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()
