"""What the registry holds, as far as the caller may see it."""

from functools import cache
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from waygraph.api.rest.dependencies import Calling, ForRead, Service, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import as_json, unless_known
from waygraph.api.rest.requests import CallRequest, CategoryPath, Name, ToolsetName
from waygraph.api.rest.routes.search import define_tools
from waygraph.ingest.logins.store import login_file
from waygraph.registry.access.visibility import Caller
from waygraph.registry.catalog.tool_formats import ToolFormat
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import NotCallable
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import AgentKind, Filters
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_NAMES, MAX_PART, after, cursor
from waygraph.registry.storage.export.formats import ExportFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waygraph.api.rest.mcp_mount import OfferedGateway
    from waygraph.registry.model.changes import SourceSummary, Status
    from waygraph.registry.model.nouns import Tool
    from waygraph.registry.model.shapes import Shape

router = APIRouter(prefix="/v1", tags=["catalog"])

AgentId = Annotated[str, Path(description="An agent's id.", min_length=1, max_length=MAX_ID_CHARS)]
ToolName = Annotated[str, Path(description="The name of one of its tools.", min_length=1)]
ToolId = Annotated[str, Path(description="A tool's id or its call name.", min_length=1)]
ToolsetPath = Annotated[str, Path(description="A toolset's name.", min_length=1, max_length=MAX_ID_CHARS)]
CallName = Annotated[
    str, Path(description="The name under which hosts call it.", min_length=1, max_length=MAX_ID_CHARS)
]


class Part(BaseModel):
    """Which part of a list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=100, ge=1, le=MAX_PART, description="How many to give at most.")
    cursor: str = Field(default="", max_length=4096, description="`following` of the part before.")


class AgentFilters(BaseModel):
    """Which agents."""

    model_config = ConfigDict(extra="forbid")

    tag: list[Name] = Field(default=[], max_length=MAX_NAMES, description="Only agents with any of these tags.")
    kind: list[AgentKind] = Field(default=[], max_length=5, description="Only agents of any of these kinds.")
    agent: list[Name] = Field(default=[], max_length=MAX_NAMES, description="Only these agents, by id.")
    reachable: bool = Field(default=False, description="Leave out agents that could not be reached, or fail.")
    within: CategoryPath = ""
    toolset: ToolsetName = ""

    def filters(self) -> Filters:
        return Filters(
            tags=tuple(self.tag),
            kinds=tuple(self.kind),
            agent_ids=tuple(self.agent),
            reachable=self.reachable,
            within=self.within,
            toolset=self.toolset,
        )


class AgentsPart(Part, AgentFilters):
    pass


class CategoryQuery(AgentFilters):
    path: str = Field(
        default="", max_length=MAX_NAME_CHARS, description="A category, such as travel/flights; empty: the root."
    )


class ChangesPart(Part):
    since: str = Field(
        default="",
        max_length=64,
        description="Only from then on: a time in ISO 8601, in UTC unless it says otherwise (its + is %2B in a URL).",
    )
    agent: str = Field(default="", max_length=MAX_ID_CHARS, description="Only of this agent and its tools.")


class Schemas(BaseModel):
    """Whether tools are told whole."""

    model_config = ConfigDict(extra="forbid")

    tool_schema: bool = Field(default=False, alias="schema", description="Tell the schemas of tools too.")


class Detail(Schemas):
    """How much of a tool is told."""

    format: ToolFormat | None = Field(
        default=None, description="Also give the tools in this host's own format, as `definitions`."
    )


class ToolsPart(Part, Detail):
    pass


class ExportQuery(BaseModel):
    """What to write."""

    model_config = ConfigDict(extra="forbid")

    format: ExportFormat = Field(default="json", description="What to write.")


MEDIA_TYPES = {"json": "application/json", "graphml": "application/graphml+xml", "html": "text/html; charset=utf-8"}


@router.get("/agents", **operation("agents"))
async def agents(request: Request, service: Serving, caller: ForRead, part: Annotated[AgentsPart, Query()]) -> Response:
    """The agents, by id, each with the number of its tools."""
    start = after(part.cursor)

    def list_agents() -> "Shape":
        page = service.registry.agents_page(
            filters=part.filters(), after=start, limit=part.limit, principal=caller.principal
        )
        return {**shapes.agents(page.items, caller.transport_filter), **_place(page.revision, page.following)}

    return await unless_known(request, service, caller, list_agents)


@router.get("/agents/{agent_id}", **operation("agent"))
async def agent(
    request: Request, service: Serving, caller: ForRead, agent_id: AgentId, detail: Annotated[Schemas, Query()]
) -> Response:
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""

    def describe_agent() -> "Shape":
        facts = service.registry.about(agent_id, principal=caller.principal)
        return shapes.about(facts, schemas=detail.tool_schema, transport=caller.transport_filter)

    return await unless_known(request, service, caller, describe_agent)


@router.get("/agents/{agent_id}/tools", **operation("agent_tools"))
async def agent_tools(
    request: Request, service: Serving, caller: ForRead, agent_id: AgentId, part: Annotated[ToolsPart, Query()]
) -> Response:
    """The tools of an agent, by id."""
    return await _tools(request, service, caller, agent_id, part)


@router.get("/tools", **operation("tools"))
async def tools(request: Request, service: Serving, caller: ForRead, part: Annotated[ToolsPart, Query()]) -> Response:
    """The tools of all agents, by id."""
    return await _tools(request, service, caller, None, part)


async def _tools(request: Request, service: Service, caller: Caller, agent_id: str | None, part: ToolsPart) -> Response:
    start = after(part.cursor)

    def list_tools() -> "Shape":
        page = service.registry.tools(agent_id, after=start, limit=part.limit, principal=caller.principal)
        return {
            **shapes.tools(page.items, schemas=part.tool_schema),
            **_place(page.revision, page.following),
            **_offer_tools(page.items, part.format, service, caller),
        }

    return await unless_known(request, service, caller, list_tools)


@router.get("/tools/{agent_id}/{tool_name:path}", **operation("tool"))
async def tool(  # noqa: PLR0917 - the parts of a request
    request: Request,
    service: Serving,
    caller: ForRead,
    agent_id: AgentId,
    tool_name: ToolName,
    detail: Annotated[Detail, Query()],
) -> Response:
    """One tool, by its agent and its name."""
    return await _tool(request, service, caller, f"{agent_id}/{tool_name}", detail)


@router.get("/tools/{call_name}", **operation("tool_called"))
async def tool_called(
    request: Request, service: Serving, caller: ForRead, call_name: CallName, detail: Annotated[Detail, Query()]
) -> Response:
    """One tool, by its call name."""
    return await _tool(request, service, caller, call_name, detail)


@router.post("/tools/{tool_id:path}/call", **operation("call_tool"))
async def call_tool(asked: CallRequest, request: Request, caller: Calling, tool_id: ToolId) -> Response:
    """Run a tool, by its id or call name, by the same policy as for hosts of MCP. Nobody can be asked: a tool that a
    person has to agree to is refused.
    """
    gateway: OfferedGateway | None = request.app.state.gateway
    if gateway is None:
        raise NotCallable(tool_id, "this service offers no gateway (--no-mcp)")
    credentials = {"authorization": request.headers.get("authorization", ""), "sent_to": str(request.base_url)}
    return as_json(await gateway.call_tool(caller, tool_id, asked.arguments, asked.timeout_s, **credentials))


async def _tool(request: Request, service: Service, caller: Caller, name: str, detail: Detail) -> Response:
    def describe_tool() -> "Shape":
        tool = service.registry.tool(name, principal=caller.principal)
        shape = shapes.tool(tool, schemas=detail.tool_schema)
        return {**shape, **_offer_tools([tool], detail.format, service, caller)}

    return await unless_known(request, service, caller, describe_tool)


@router.get("/taxonomy", **operation("taxonomy"))
async def taxonomy(
    request: Request, service: Serving, caller: ForRead, asked: Annotated[CategoryQuery, Query()]
) -> Response:
    """A category of the current taxonomy, its children with counts and examples, and what stands in it."""

    def browse() -> "Shape":
        return shapes.shape(service.registry.browse(asked.path, filters=asked.filters(), principal=caller.principal))

    return await unless_known(request, service, caller, browse)


@router.get("/logins", **operation("logins"))
async def logins(service: Serving, caller: Calling) -> Response:
    """The caller's own logins at servers that are called as each caller, of agents that the caller may see."""
    caller.require("use")

    def list_own() -> "Shape":
        visible_ids = {agent.id for agent in service.registry.agents(principal=caller.principal)}
        own = [each for each in login_file(service.settings).list() if each.caller == caller.id]
        return {
            "logins": [{"agent_id": e.agent_id, "by": e.by, "at": e.at} for e in own if e.agent_id in visible_ids],
        }

    return as_json(await service.lanes.ask(list_own))


@router.get("/toolsets", **operation("toolsets"))
async def toolsets(request: Request, service: Serving, caller: ForRead) -> Response:
    """The toolsets that the caller may use, by name, each with what the caller may see of it."""

    def list_toolsets() -> "Shape":
        items = service.registry.toolsets(principal=caller.principal)
        revision = service.registry.status(principal=caller.principal).state.revision
        return {"toolsets": shapes.toolsets(items), "revision": revision}

    return await unless_known(request, service, caller, list_toolsets)


@router.get("/toolsets/{name}", **operation("toolset"))
async def toolset(request: Request, service: Serving, caller: ForRead, name: ToolsetPath) -> Response:
    """One toolset, if the caller may use it."""

    def describe_toolset() -> "Shape":
        return shapes.shape(service.registry.toolset(name, principal=caller.principal))

    return await unless_known(request, service, caller, describe_toolset)


@router.get("/sources", **operation("sources"))
async def sources(request: Request, service: Serving, caller: ForRead) -> Response:
    """The sources, each with the agents that it claims."""

    @cache
    def read_sources() -> "list[SourceSummary]":
        return service.registry.sources(principal=caller.principal)

    def stamp() -> str:
        # A sync that finds nothing new makes no revision, but was here; nor does what fails.
        states = [(source.seen_at, source.pause_s, source.failures) for source in read_sources()]
        return f"{service.registry.stamp} {digest(str(states))}"

    def list_sources() -> "Shape":
        return shapes.sources(read_sources(), caller.transport_filter)

    return await unless_known(request, service, caller, list_sources, stamp=stamp)


@router.get("/changes", **operation("changes"))
async def changes(
    request: Request, service: Serving, caller: ForRead, part: Annotated[ChangesPart, Query()]
) -> Response:
    """What sources changed of agents that were known before and of their tools, the newest first."""
    start = after(part.cursor)

    def list_changes() -> "Shape":
        page = service.registry.operator.changes(
            since=part.since, agent_id=part.agent, after=start, limit=part.limit, principal=caller.principal
        )
        return {**shapes.changes(page.items, caller.transport_filter), **_place(page.revision, page.following)}

    return await unless_known(request, service, caller, list_changes)


@router.get("/status", **operation("status"))
async def status(request: Request, service: Serving, caller: ForRead) -> Response:
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""

    @cache
    def find_status() -> "Status":
        return service.registry.status(principal=caller.principal)

    def read_status() -> "Shape":
        shape = shapes.status(find_status(), caller.transport_filter)
        return shape if caller.sees_everything else {**shape, "location": ""}

    def stamp() -> str:
        # What fails makes no revision.
        return f"{service.registry.stamp} {digest(str(find_status().failures))}"

    return await unless_known(request, service, caller, read_status, stamp=stamp)


@router.get("/export", **operation("export"))
async def export(service: Serving, caller: ForRead, asked: Annotated[ExportQuery, Query()]) -> Response:
    """The whole registry as a file. It needs the scope `admin` and a caller who sees everything."""
    caller.require("admin")
    caller.require_everything("an export")
    content = await service.lanes.wait(lambda: service.registry.operator.export(asked.format))
    headers = {"Content-Disposition": f'attachment; filename="registry.{asked.format}"'}
    return Response(content.encode("utf-8", "replace"), media_type=MEDIA_TYPES[asked.format], headers=headers)


def _offer_tools(tools: "Sequence[Tool]", tool_format: ToolFormat | None, service: Service, caller: Caller) -> "Shape":
    """In a host's format, if one was asked for: neither tools that wait for approval nor those of agents that do."""
    if tool_format is None:
        return {}
    waiting = {agent.id for agent in service.registry.agents(principal=caller.principal) if agent.pending}
    return define_tools([tool for tool in tools if tool.agent_id not in waiting], tool_format)


def _place(revision: int, following: str) -> "Shape":
    return {"revision": revision, "following": cursor(following)}
