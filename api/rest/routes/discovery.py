"""By what other programs find this service and what it holds: an AI Catalog, a list of MCP servers."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Path, Query
from fastapi.responses import Response
from pydantic import Field

from waygraph.api.rest.mcp_mount import WHOLE
from waygraph.api.rest.requests import Parameters
from waygraph.api.rest.service import Exchange, handles
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.validation import MAX_ID_CHARS, after, cursor
from waygraph.registry.operations import table as operations

LATEST = "latest"


@handles(operations.AI_CATALOG)
async def ai_catalog(exchange: Exchange) -> Response:
    """An AI Catalog of this service and of the agents that the caller may see; without a caller, of the service.

    Agents that wait for approval are not in it.
    """
    from waygraph.registry.storage.export.formats import ai_catalog

    host = urlsplit(exchange.base_url).hostname or "localhost"

    def catalog_json() -> Shape:
        may_read = "read" in exchange.caller.scopes
        agents = exchange.registry.agents(principal=exchange.principal) if may_read else []
        return ai_catalog([agent for agent in agents if not agent.pending], host, exchange.base_url)

    if not await exchange.service.lanes.ask(lambda: exchange.registry.store.exists):
        return exchange.as_json(ai_catalog((), host, exchange.base_url))
    return await exchange.unless_known(catalog_json)


class ServersPart(Parameters):
    """Which part of the list of servers, in the words of the MCP registry."""

    limit: int = Field(default=30, ge=1, le=100)
    """How many to give at most."""
    cursor: str = Field(default="", max_length=4096)
    """`nextCursor` of the part before."""
    search: str = Field(default="", max_length=MAX_ID_CHARS)
    """Only names that hold this text."""
    version: str = Field(default="", max_length=MAX_ID_CHARS)
    """`latest`, or only this version."""
    updated_since: str = Field(default="", max_length=64)
    """Taken, and not applied: all are told."""
    include_deleted: bool = False
    """Taken, and not applied: what is gone is not told."""


ServerName = Annotated[
    str, Path(description="A server's name, its slash as %2F or as it is.", min_length=3, max_length=2 * MAX_ID_CHARS)
]
Version = Annotated[str, Path(description="A version, or `latest`.", min_length=1, max_length=MAX_ID_CHARS)]


@handles(operations.SERVERS)
def servers(exchange: Exchange, part: Annotated[ServersPart, Query()]) -> Shape:
    """The MCP servers that the caller may see and the gateway itself, as the MCP registry lists servers."""
    start, versions = after(part.cursor), {part.version} - {"", LATEST}
    fit = [
        entry
        for entry in _servers(exchange)
        if part.search.casefold() in entry["server"]["name"].casefold()
        and entry["server"]["name"] > start
        and (not versions or entry["server"]["version"] in versions)
    ]
    page = fit[: part.limit]
    following = cursor(page[-1]["server"]["name"]) if len(fit) > len(page) else ""
    return {"servers": page, "metadata": {"count": len(page), **({"nextCursor": following} if following else {})}}


@handles(operations.SERVER_VERSIONS)
def server_versions(exchange: Exchange, server_name: ServerName) -> Shape:
    """The versions of one server: the one that the registry holds."""
    return {"servers": [_server(exchange, server_name, LATEST)], "metadata": {"count": 1}}


@handles(operations.SERVER)
def server(exchange: Exchange, server_name: ServerName, version: Version) -> Shape:
    """One version of a server; `latest` is the one that the registry holds."""
    return _server(exchange, server_name, version)


def _servers(exchange: Exchange) -> list[dict[str, Any]]:
    from waygraph.registry.storage.export.formats import servers

    transport_filter = exchange.transport_filter or (lambda transport: transport)
    agents = exchange.registry.agents(principal=exchange.principal)
    gateway = any(getattr(route, "path", "") == WHOLE for route in exchange.request.app.router.routes)
    entries = ((agent, transport_filter(agent.transport)) for agent in agents)
    return list(servers(entries, exchange.base_url, gateway=gateway))


def _server(exchange: Exchange, name: str, version: str) -> dict[str, Any]:
    """Raises UnknownName."""
    entries = {entry["server"]["name"]: entry for entry in _servers(exchange)}
    if (item := entries.get(name)) is None:
        raise UnknownName("server", name, entries, some=True)
    if version not in (LATEST, has := item["server"]["version"]):
        raise UnknownName("version", version, [has])
    return item
