"""What the registry holds, as far as the caller may see it."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from waygraph.api.rest.exchange import Exchange, handles
from waygraph.api.rest.requests import CallRequest, CategoryPath, Name, ToolsetName
from waygraph.api.rest.routes.search import define_tools
from waygraph.ingest.logins.store import login_file
from waygraph.registry.catalog.tool_formats import ToolFormat
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import NotCallable
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import AgentKind, Filters
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.validation import (
    FILTER_LISTS,
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MAX_NAMES,
    MAX_PART,
    after,
    cursor,
)
from waygraph.registry.remote import operations
from waygraph.registry.storage.export.formats import ExportFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waygraph.api.rest.mcp_mount import OfferedGateway
    from waygraph.registry.model.changes import Page
    from waygraph.registry.model.nouns import Tool

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

    @property
    def start(self) -> str:
        """The id after which the part begins. Raises InvalidQuery."""
        return after(self.cursor)

    def model_post_init(self, _: Any) -> None:
        """Raises InvalidQuery."""
        _ = self.start


class AgentFilters(BaseModel):
    """Which agents."""

    model_config = ConfigDict(extra="forbid")

    tag: list[Name] = Field(default=[], max_length=MAX_NAMES, description="Only agents with any of these tags.")
    kind: list[AgentKind] = Field(default=[], max_length=5, description="Only agents of any of these kinds.")
    agent: list[Name] = Field(default=[], max_length=MAX_NAMES, description="Only these agents, by id.")
    without_tag: list[Name] = Field(default=[], max_length=MAX_NAMES, description="No agents with any of these tags.")
    without_kind: list[AgentKind] = Field(default=[], max_length=5, description="No agents of any of these kinds.")
    without_agent: list[Name] = Field(default=[], max_length=MAX_NAMES, description="Not these agents, by id.")
    reachable: bool = Field(default=False, description="Leave out agents that could not be reached, or fail.")
    within: CategoryPath = ""
    toolset: ToolsetName = ""

    def filters(self) -> Filters:
        lists = {field: getattr(self, param) for param, field in FILTER_LISTS.items()}
        return shapes.read(Filters, {**self.model_dump(include={"reachable", "within", "toolset"}), **lists})


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


@handles(operations.AGENTS)
def agents(exchange: Exchange, part: Annotated[AgentsPart, Query()]) -> Shape:
    """The agents, by id, each with the number of its tools."""
    page = exchange.registry.agents_page(
        filters=part.filters(), after=part.start, limit=part.limit, principal=exchange.principal
    )
    return {**shapes.agents(page.items, exchange.transport_filter), **_place(page)}


@handles(operations.AGENT)
def agent(exchange: Exchange, agent_id: AgentId, detail: Annotated[Schemas, Query()]) -> Shape:
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""
    facts = exchange.registry.about(agent_id, principal=exchange.principal)
    return shapes.about(facts, schemas=detail.tool_schema, transport=exchange.transport_filter)


@handles(operations.AGENT_TOOLS)
def agent_tools(exchange: Exchange, agent_id: AgentId, part: Annotated[ToolsPart, Query()]) -> Shape:
    """The tools of an agent, by id."""
    return _list_tools(exchange, agent_id, part)


@handles(operations.TOOLS)
def tools(exchange: Exchange, part: Annotated[ToolsPart, Query()]) -> Shape:
    """The tools of all agents, by id."""
    return _list_tools(exchange, None, part)


def _list_tools(exchange: Exchange, agent_id: str | None, part: ToolsPart) -> Shape:
    page = exchange.registry.tools(agent_id, after=part.start, limit=part.limit, principal=exchange.principal)
    return {
        **shapes.tools(page.items, schemas=part.tool_schema),
        **_place(page),
        **_offer_tools(exchange, page.items, part.format),
    }


@handles(operations.TOOL)
def tool(exchange: Exchange, agent_id: AgentId, tool_name: ToolName, detail: Annotated[Detail, Query()]) -> Shape:
    """One tool, by its agent and its name."""
    return _describe_tool(exchange, f"{agent_id}/{tool_name}", detail)


@handles(operations.TOOL_CALLED)
def tool_called(exchange: Exchange, call_name: CallName, detail: Annotated[Detail, Query()]) -> Shape:
    """One tool, by its call name."""
    return _describe_tool(exchange, call_name, detail)


def _describe_tool(exchange: Exchange, name: str, detail: Detail) -> Shape:
    tool = exchange.registry.tool(name, principal=exchange.principal)
    shape = shapes.tool(tool, schemas=detail.tool_schema)
    return {**shape, **_offer_tools(exchange, [tool], detail.format)}


@handles(operations.CALL_TOOL)
async def call_tool(exchange: Exchange, body: CallRequest, tool_id: ToolId) -> Response:
    """Run a tool, by its id or call name, by the same policy as for hosts of MCP. Nobody can be asked: a tool that a
    person has to agree to is refused.
    """
    request = exchange.request
    gateway: OfferedGateway | None = request.app.state.gateway
    if gateway is None:
        raise NotCallable(tool_id, "this service offers no gateway (--no-mcp)")
    credentials = {"authorization": request.headers.get("authorization", ""), "sent_to": str(request.base_url)}
    result = await gateway.call_tool(exchange.caller, tool_id, body.arguments, body.timeout_s, **credentials)
    return exchange.as_json(result)


@handles(operations.TAXONOMY)
def taxonomy(exchange: Exchange, query: Annotated[CategoryQuery, Query()]) -> Shape:
    """A category of the current taxonomy, its children with counts and examples, and what stands in it."""
    return shapes.shape(exchange.registry.browse(query.path, filters=query.filters(), principal=exchange.principal))


@handles(operations.LOGINS)
def logins(exchange: Exchange) -> Shape:
    """The caller's own logins at servers that are called as each caller, of agents that the caller may see."""
    visible_ids = {agent.id for agent in exchange.registry.agents(principal=exchange.principal)}
    own = [each for each in login_file(exchange.service.settings).list() if each.caller == exchange.caller.id]
    return {
        "logins": [{"agent_id": e.agent_id, "by": e.by, "at": e.at} for e in own if e.agent_id in visible_ids],
    }


@handles(operations.TOOLSETS)
def toolsets(exchange: Exchange) -> Shape:
    """The toolsets that the caller may use, by name, each with what the caller may see of it."""
    items = exchange.registry.toolsets(principal=exchange.principal)
    return {"toolsets": shapes.toolsets(items), "revision": exchange.status.state.revision}


@handles(operations.TOOLSET)
def toolset(exchange: Exchange, name: ToolsetPath) -> Shape:
    """One toolset, if the caller may use it."""
    return shapes.shape(exchange.registry.toolset(name, principal=exchange.principal))


def _stamp_of_sources(exchange: Exchange) -> str:
    """A sync that finds nothing new makes no revision, but was here; nor does what fails."""
    states = [(source.seen_at, source.pause_s, source.failures) for source in exchange.sources]
    return f"{exchange.registry.stamp} {digest(str(states))}"


@handles(operations.SOURCES, stamp=_stamp_of_sources)
def sources(exchange: Exchange) -> Shape:
    """The sources, each with the agents that it claims."""
    return shapes.sources(exchange.sources, exchange.transport_filter)


@handles(operations.CHANGES)
def changes(exchange: Exchange, part: Annotated[ChangesPart, Query()]) -> Shape:
    """What came, and what sources changed of what was known: agents, tools and sources, the newest first."""
    page = exchange.registry.operator.changes(
        since=part.since, agent_id=part.agent, after=part.start, limit=part.limit, principal=exchange.principal
    )
    return {**shapes.changes(page.items, exchange.transport_filter), **_place(page)}


def _stamp_of_status(exchange: Exchange) -> str:
    """What fails makes no revision."""
    return f"{exchange.registry.stamp} {digest(str(exchange.status.failures))}"


@handles(operations.STATUS, stamp=_stamp_of_status)
def status(exchange: Exchange) -> Shape:
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""
    shape = shapes.status(exchange.status, exchange.transport_filter)
    return shape if exchange.caller.sees_everything else {**shape, "location": ""}


@handles(operations.EXPORT)
async def export(exchange: Exchange, query: Annotated[ExportQuery, Query()]) -> Response:
    """The whole registry as a file. It needs the scope `admin` and a caller who sees everything."""
    exchange.caller.require("admin")
    exchange.caller.require_everything("an export")
    content = await exchange.service.lanes.wait(lambda: exchange.registry.operator.export(query.format))
    headers = {"Content-Disposition": f'attachment; filename="registry.{query.format}"'}
    media_type = operations.MEDIA_TYPES[query.format]
    return Response(content.encode("utf-8", "replace"), media_type=media_type, headers=headers)


def _offer_tools(exchange: Exchange, tools: "Sequence[Tool]", tool_format: ToolFormat | None) -> Shape:
    """In a host's format, if one was asked for: neither tools that wait for approval nor those of agents that do."""
    if tool_format is None:
        return {}
    waiting = {agent.id for agent in exchange.registry.agents(principal=exchange.principal) if agent.pending}
    return define_tools([tool for tool in tools if tool.agent_id not in waiting], tool_format)


def _place(page: "Page[Any]") -> Shape:
    return {"revision": page.revision, "following": cursor(page.following)}
