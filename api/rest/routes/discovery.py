"""By what other programs find this service and what it holds: an AI Catalog and its search, a list of MCP servers."""

import re
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from fastapi import Path, Query
from fastapi.responses import Response
from pydantic import Field

from waygraph.api.rest import problems
from waygraph.api.rest.mcp_mount import WHOLE
from waygraph.api.rest.requests import Parameters, ResourceSearch
from waygraph.api.rest.service import Exchange, handles
from waygraph.registry.http.problems import MEDIA_TYPE
from waygraph.registry.model import nouns
from waygraph.registry.model.errors import InvalidQuery, UnknownName
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_PART, after, cursor
from waygraph.registry.operations import table as operations

LATEST = "latest"
IDENTIFIER = re.compile(r"urn:air:[^:\s]+:[^\s]*[^:\s]")
Identifier = Annotated[str, Path(description="A URN, with `:` as %3A.", min_length=1, max_length=4 * MAX_ID_CHARS)]


@handles(operations.AI_CATALOG)
async def ai_catalog(exchange: Exchange) -> Response:
    """An AI Catalog of this service and of the agents that the caller may see; without a caller, of the service.

    Agents that wait for approval are not in it.
    """
    if not await exchange.service.lanes.ask(lambda: exchange.registry.store.exists):
        return exchange.as_json(_catalog(exchange, empty=True))
    return await exchange.unless_known(lambda: _catalog(exchange))


@handles(operations.ARD_MANIFEST)
async def ard_manifest(exchange: Exchange) -> Response:
    """The same entries, where Agentic Resource Discovery 0.91 has them looked for."""
    return await ai_catalog(exchange)


@handles(operations.RESOURCE)
async def resource(exchange: Exchange, identifier: Identifier) -> Response:
    """One entry of the catalogue, by its identifier. An error has the fields of Agentic Resource Discovery, too."""
    try:
        return await exchange.unless_known(lambda: _entry(exchange, identifier))
    except (UnknownName, InvalidQuery) as error:
        status, code = (404, "NOT_FOUND") if isinstance(error, UnknownName) else (400, "INVALID_ARGUMENT")
        details = {**problems.problem_of(error), "status": status, "errorCode": code, "message": str(error)}
        return problems.as_json(details, media_type=MEDIA_TYPE, status=status)


@handles(operations.SERVER_CARD)
def server_card(exchange: Exchange) -> Shape:
    """The MCP Server Card of the gateway: what it is and where it is reached (SEP-2127)."""
    from waygraph.registry.storage.export.formats import server_card

    if not _has_gateway(exchange):
        raise UnknownName("server", WHOLE, ())
    return server_card(exchange.base_url)


def _catalog(exchange: Exchange, *, empty: bool = False) -> Shape:
    from waygraph.registry.storage.export.formats import ai_catalog

    may_read = "read" in exchange.caller.scopes and not empty
    agents = exchange.registry.agents(principal=exchange.principal) if may_read else []
    host = urlsplit(exchange.base_url).hostname or "localhost"
    gateway = _has_gateway(exchange)
    return ai_catalog((agent for agent in agents if not agent.pending), host, exchange.base_url, gateway=gateway)


def _entry(exchange: Exchange, identifier: str) -> Shape:
    """Raises UnknownName, InvalidQuery."""
    if not IDENTIFIER.fullmatch(identifier):
        raise InvalidQuery("an identifier is a URN: urn:air:PUBLISHER:NAMESPACE:NAME")
    from waygraph.registry.storage.export.formats import catalog_entry

    entries = list[Shape](_catalog(exchange, empty=True)["entries"])
    if "read" in exchange.caller.scopes:
        with suppress(UnknownName):
            agent = exchange.registry.agent(unquote(identifier.rpartition(":")[2]), principal=exchange.principal)
            entries += [] if agent.pending else [catalog_entry(agent, exchange.base_url)]
    for entry in entries:
        if entry["identifier"] == identifier:
            return entry
    raise UnknownName("resource", identifier, (), some=True)


def _has_gateway(exchange: Exchange) -> bool:
    return any(getattr(route, "path", "") == WHOLE for route in exchange.request.app.router.routes)


@handles(operations.SEARCH_RESOURCES)
def search_resources(exchange: Exchange, search: ResourceSearch) -> Shape:
    """The entries of the catalogue that fit, best first, as Agentic Resource Discovery 0.91 has registries searched.

    A score is how near an entry comes to the best one, times how likely that one is right, in percent.
    """
    from waygraph.registry.storage.export.formats import catalog_entry, fits_entry

    answer: Shape = {"results": []}
    base_url, offset = exchange.base_url, _read_offset(search.page_token)
    filters, entry_filter = nouns.Filters(), search.query.filter
    if entry_filter:
        agents = exchange.registry.agents(principal=exchange.principal)
        fit = (agent.id for agent in agents if fits_entry(catalog_entry(agent, base_url), entry_filter))
        filters = nouns.Filters(agent_ids=tuple(fit))
    if offset < MAX_PART and (filters.agent_ids or not entry_filter):
        query = nouns.Query(text=search.query.text, limit=min(offset + search.page_size + 1, MAX_PART), filters=filters)
        route = exchange.registry.route(query, principal=exchange.principal)
        matches = sorted((*route.matches, *route.pinned), key=lambda match: (-match.score, match.agent.id))
        matches = [match for match in matches if match.score > 0]
        sure = 1.0 if route.confidence is None else route.confidence
        answer["results"] = [
            catalog_entry(match.agent, base_url)
            | {"score": round(100 * sure * match.score / matches[0].score), "source": f"{base_url}/ard"}
            for match in matches[offset : offset + search.page_size]
        ]
        if len(matches) > offset + search.page_size:
            answer["pageToken"] = cursor(str(offset + search.page_size))
    return answer | ({"referrals": []} if search.federation == "referrals" else {})


def _read_offset(token: str) -> int:
    """How many entries came before. Raises InvalidQuery."""
    offset = read_digits(after(token) or "0")
    if offset is None:
        raise InvalidQuery("this `pageToken` is not one that a page ended with")
    return offset


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
    entries = ((agent, transport_filter(agent.transport)) for agent in agents)
    return list(servers(entries, exchange.base_url, gateway=_has_gateway(exchange)))


def _server(exchange: Exchange, name: str, version: str) -> dict[str, Any]:
    """Raises UnknownName."""
    entries = {entry["server"]["name"]: entry for entry in _servers(exchange)}
    if (item := entries.get(name)) is None:
        raise UnknownName("server", name, entries, some=True)
    if version not in (LATEST, has := item["server"]["version"]):
        raise UnknownName("version", version, [has])
    return item
