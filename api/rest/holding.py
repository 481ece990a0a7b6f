"""What the registry holds, as far as the caller may see it."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from waygraph.api.rest.answers import unless_known
from waygraph.api.rest.asking import defined
from waygraph.api.rest.cursors import after, cursor
from waygraph.api.rest.documents import operation
from waygraph.api.rest.requests import MAX_LIMIT, MAX_NAMES, Name
from waygraph.api.rest.service import ForRead, Serving
from waygraph.registry.formats import ToolFormat
from waygraph.registry.model import AgentKind, Filters
from waygraph.registry.wire import shapes

if TYPE_CHECKING:
    from waygraph.registry.wire.shapes import Shape

router = APIRouter(prefix="/v1", tags=["holding"])

AgentId = Annotated[str, Path(description="An agent's id.", min_length=1, max_length=256)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to give at most.")]
Cursor = Annotated[str, Query(max_length=4096, description="`following` of the part before.")]
Whole = Annotated[bool, Query(alias="schema", description="Tell the schemas of tools too.")]
Format = Annotated[
    ToolFormat | None, Query(description="Also give the tools in this host's own format, as `definitions`.")
]
Tags = Annotated[list[Name], Query(alias="tag", max_length=MAX_NAMES, description="Only agents with any of these.")]
Kinds = Annotated[list[AgentKind], Query(alias="kind", max_length=5, description="Only agents of any of these kinds.")]

MEDIA_TYPES = {"json": "application/json", "graphml": "application/graphml+xml", "html": "text/html; charset=utf-8"}


@router.get("/agents", **operation("agents"))
async def agents(
    request: Request,
    service: Serving,
    caller: ForRead,
    limit: Limit = 100,
    cursor: Cursor = "",
    tag: Tags = [],  # noqa: B006 - FastAPI makes a new one for each request
    kind: Kinds = [],  # noqa: B006
) -> Response:
    """The agents, by id, each with the number of its tools."""
    filters, start = Filters(tags=tuple(tag), kinds=tuple(kind)), after(cursor)

    def listed() -> "Shape":
        page = service.registry.agents_page(filters=filters, after=start, limit=limit, principal=caller.principal)
        return {**shapes.agents(page.items), **_place(page.revision, page.following)}

    return await unless_known(request, service, caller, listed)


@router.get("/agents/{agent_id}", **operation("agent"))
async def agent(
    request: Request, service: Serving, caller: ForRead, agent_id: AgentId, schema: Whole = False
) -> Response:
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""

    def told() -> "Shape":
        return shapes.about(service.registry.about(agent_id, principal=caller.principal), schemas=schema)

    return await unless_known(request, service, caller, told)


@router.get("/agents/{agent_id}/tools", **operation("agent_tools"))
async def agent_tools(
    request: Request,
    service: Serving,
    caller: ForRead,
    agent_id: AgentId,
    limit: Limit = 100,
    cursor: Cursor = "",
    schema: Whole = False,
    format: Format = None,  # noqa: A002 - the parameter's name
) -> Response:
    """The tools of an agent, by id."""
    return await _tools(request, service, caller, agent_id, limit, cursor, schema, format)


@router.get("/tools", **operation("tools"))
async def tools(
    request: Request,
    service: Serving,
    caller: ForRead,
    limit: Limit = 100,
    cursor: Cursor = "",
    schema: Whole = False,
    format: Format = None,  # noqa: A002 - the parameter's name
) -> Response:
    """The tools of all agents, by id."""
    return await _tools(request, service, caller, "", limit, cursor, schema, format)


async def _tools(
    request: Request,
    service: Serving,
    caller: ForRead,
    agent_id: str,
    limit: int,
    cursor: str,
    schema: bool,
    tool_format: ToolFormat | None,
) -> Response:
    start = after(cursor)

    def listed() -> "Shape":
        page = service.registry.tools_page(agent_id, after=start, limit=limit, principal=caller.principal)
        listed = shapes.tools(page.items, schemas=schema)
        return {**listed, **_place(page.revision, page.following), **defined(list(page.items), tool_format)}

    return await unless_known(request, service, caller, listed)


@router.get("/tools/{agent_id}/{tool_name:path}", **operation("tool"))
async def tool(
    request: Request,
    service: Serving,
    caller: ForRead,
    agent_id: AgentId,
    tool_name: str,
    schema: Whole = False,
    format: Format = None,  # noqa: A002 - the parameter's name
) -> Response:
    """One tool, by its agent and its name."""
    return await _tool(request, service, caller, f"{agent_id}/{tool_name}", schema, format)


@router.get("/tools/{call_name}", **operation("tool_called"))
async def tool_called(
    request: Request,
    service: Serving,
    caller: ForRead,
    call_name: Annotated[str, Path(description="The name under which hosts call it.", min_length=1, max_length=256)],
    schema: Whole = False,
    format: Format = None,  # noqa: A002 - the parameter's name
) -> Response:
    """One tool, by its call name."""
    return await _tool(request, service, caller, call_name, schema, format)


async def _tool(
    request: Request, service: Serving, caller: ForRead, name: str, schema: bool, tool_format: ToolFormat | None
) -> Response:
    def told() -> "Shape":
        found = service.registry.tool(name, principal=caller.principal)
        shape = shapes.tool(found) if schema else shapes.brief_tool(found)
        return {**shape, **defined([found], tool_format)}

    return await unless_known(request, service, caller, told)


@router.get("/sources", **operation("sources"))
async def sources(request: Request, service: Serving, caller: ForRead) -> Response:
    """The sources, each with the agents that it claims."""

    def told() -> "Shape":
        return shapes.sources(service.registry.sources(principal=caller.principal))

    return await unless_known(request, service, caller, told)


@router.get("/status", **operation("status"))
async def status(request: Request, service: Serving, caller: ForRead) -> Response:
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""

    def told() -> "Shape":
        shape = shapes.status(service.registry.status(principal=caller.principal))
        return shape if caller.sees_everything else {**shape, "location": ""}

    return await unless_known(request, service, caller, told)


@router.get("/export", **operation("export"))
async def export(
    service: Serving,
    caller: ForRead,
    format: Annotated[Literal["json", "graphml", "html"], Query(description="What to write.")] = "json",  # noqa: A002
) -> Response:
    """The whole registry as a file. It needs a caller who sees everything."""
    caller.require_everything("an export")
    content = await service.lanes.wait(service.registry.export, format)
    headers = {"Content-Disposition": f'attachment; filename="registry.{format}"'}
    return Response(content.encode("utf-8", "replace"), media_type=MEDIA_TYPES[format], headers=headers)


def _place(revision: int, following: str) -> "Shape":
    return {"revision": revision, "following": cursor(following)}
