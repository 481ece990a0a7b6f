"""By what other programs find this service and what it holds: an AI Catalog and its search, a list of MCP servers."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from waygraph.api.rest.dependencies import ForRead, ForRoute, Service, Serving
from waygraph.api.rest.mcp_mount import WHOLE
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import as_json, unless_known
from waygraph.api.rest.requests import ResourceSearch
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model import nouns
from waygraph.registry.model.errors import InvalidQuery, UnknownName
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_PART, after, cursor

if TYPE_CHECKING:
    from waygraph.registry.model.shapes import Shape

router = APIRouter(tags=["discovery"])
LATEST = "latest"


@router.get("/.well-known/ai-catalog.json", **operation("ai_catalog"))
async def ai_catalog(request: Request, service: Serving) -> Response:
    """An AI Catalog of this service and of the agents that the caller may see; without a caller, of the service.

    Agents that wait for approval are not in it.
    """
    from waygraph.registry.storage.export.formats import MEDIA_TYPE, ai_catalog

    caller = await service.caller_or_stranger(request)
    base_url = _base_url(request, service)
    host = urlsplit(base_url).hostname or "localhost"

    def catalog_json() -> "Shape":
        agents = service.registry.agents(principal=caller.principal) if "read" in caller.scopes else []
        return ai_catalog([agent for agent in agents if not agent.pending], host, base_url)

    if not await service.lanes.ask(lambda: service.registry.store.exists):
        return as_json(ai_catalog((), host, base_url), media_type=MEDIA_TYPE)
    return await unless_known(request, service, caller, catalog_json, media_type=MEDIA_TYPE)


@router.post("/ard/search", **operation("search_resources"))
async def search_resources(asked: ResourceSearch, request: Request, service: Serving, caller: ForRoute) -> Response:
    """The entries of the catalogue that fit, best first, as Agentic Resource Discovery 0.9 has registries searched.

    A score is how near an entry comes to the best one, times how likely that one is right, in percent.
    """
    base_url, offset = _base_url(request, service), _read_offset(asked.page_token)
    return as_json(await service.lanes.ask(lambda: _find_entries(asked, service, caller, base_url, offset)))


def _find_entries(search: ResourceSearch, service: Service, caller: Caller, base_url: str, offset: int) -> "Shape":
    from waygraph.registry.storage.export.formats import catalog_entry, fits_entry

    answer: Shape = {"results": []}
    filters, entry_filter = nouns.Filters(), search.query.filter
    if entry_filter:
        agents = service.registry.agents(principal=caller.principal)
        fit = (agent.id for agent in agents if fits_entry(catalog_entry(agent, base_url), entry_filter))
        filters = nouns.Filters(agent_ids=tuple(fit))
    if offset < MAX_PART and (filters.agent_ids or not entry_filter):
        query = nouns.Query(text=search.query.text, limit=min(offset + search.page_size + 1, MAX_PART), filters=filters)
        route = service.registry.route(query, principal=caller.principal)
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


class ServersPart(BaseModel):
    """Which part of the list of servers, in the words of the MCP registry."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=30, ge=1, le=100, description="How many to give at most.")
    cursor: str = Field(default="", max_length=4096, description="`nextCursor` of the part before.")
    search: str = Field(default="", max_length=MAX_ID_CHARS, description="Only names that hold this text.")
    version: str = Field(default="", max_length=MAX_ID_CHARS, description="`latest`, or only this version.")
    updated_since: str = Field(default="", max_length=64, description="Taken, and not applied: all are told.")
    include_deleted: bool = Field(default=False, description="Taken, and not applied: what is gone is not told.")


ServerName = Annotated[
    str, Path(description="A server's name, its slash as %2F or as it is.", min_length=3, max_length=2 * MAX_ID_CHARS)
]
Version = Annotated[str, Path(description="A version, or `latest`.", min_length=1, max_length=MAX_ID_CHARS)]


@router.get("/v0.1/servers", **operation("servers"))
async def servers(
    request: Request, service: Serving, caller: ForRead, part: Annotated[ServersPart, Query()]
) -> Response:
    """The MCP servers that the caller may see and the gateway itself, as the MCP registry lists servers."""
    start = after(part.cursor)
    versions = {part.version} - {"", LATEST}

    def list_servers() -> "Shape":
        fit = [
            entry
            for entry in _servers(request, service, caller)
            if part.search.casefold() in entry["server"]["name"].casefold()
            and entry["server"]["name"] > start
            and (not versions or entry["server"]["version"] in versions)
        ]
        page = fit[: part.limit]
        following = cursor(page[-1]["server"]["name"]) if len(fit) > len(page) else ""
        return {
            "servers": page,
            "metadata": {"count": len(page), **({"nextCursor": following} if following else {})},
        }

    return await unless_known(request, service, caller, list_servers)


@router.get("/v0.1/servers/{server_name:path}/versions", **operation("server_versions"))
async def server_versions(request: Request, service: Serving, caller: ForRead, server_name: ServerName) -> Response:
    """The versions of one server: the one that the registry holds."""

    def list_versions() -> "Shape":
        return {"servers": [_server(request, service, caller, server_name, LATEST)], "metadata": {"count": 1}}

    return await unless_known(request, service, caller, list_versions)


@router.get("/v0.1/servers/{server_name:path}/versions/{version}", **operation("server"))
async def server(
    request: Request, service: Serving, caller: ForRead, server_name: ServerName, version: Version
) -> Response:
    """One version of a server; `latest` is the one that the registry holds."""
    return await unless_known(request, service, caller, lambda: _server(request, service, caller, server_name, version))


def _servers(request: Request, service: Service, caller: Caller) -> list[dict[str, Any]]:
    from waygraph.registry.storage.export.server_list import servers

    transport_filter = caller.transport_filter or (lambda transport: transport)
    agents = service.registry.agents(principal=caller.principal)
    gateway = any(getattr(route, "path", "") == WHOLE for route in request.app.router.routes)
    return list(
        servers(
            ((agent, transport_filter(agent.transport)) for agent in agents),
            _base_url(request, service),
            gateway=gateway,
        )
    )


def _server(request: Request, service: Service, caller: Caller, name: str, version: str) -> dict[str, Any]:
    """Raises UnknownName."""
    entries = {entry["server"]["name"]: entry for entry in _servers(request, service, caller)}
    if (item := entries.get(name)) is None:
        raise UnknownName("server", name, entries, some=True)
    if version not in (LATEST, has := item["server"]["version"]):
        raise UnknownName("version", version, [has])
    return item


def _base_url(request: Request, service: Service) -> str:
    return (service.settings.public_url or str(request.base_url)).rstrip("/")
