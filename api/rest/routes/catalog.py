"""What the registry holds, as far as the caller may see it."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from waygraph.api.rest.browser_sessions import SESSION, is_of_page
from waygraph.api.rest.mcp_mount import OfferedGateway
from waygraph.api.rest.perform import serve
from waygraph.api.rest.recorded_calls import note_result
from waygraph.api.rest.requests import CallRequest, CategoryPath, Name, Parameters, ToolsetName
from waygraph.api.rest.service import NO_GATEWAY, Exchange, Lanes, handles
from waygraph.ingest.hosts.hosts import titles_of
from waygraph.ingest.logins.store import login_file
from waygraph.registry.http.addresses import is_loopback
from waygraph.registry.index.names import find_all_named
from waygraph.registry.model import shapes, validation
from waygraph.registry.model.errors import NotCallable
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import AgentKind, Filters
from waygraph.registry.model.shapes import Shape
from waygraph.registry.operations import catalog
from waygraph.registry.operations import table as operations
from waygraph.registry.operations.change_log import NOBODY
from waygraph.registry.operations.graph_views import DrawMap, Export
from waygraph.registry.operations.groupings import Browse, ListToolsets
from waygraph.registry.operations.request import MEDIA_TYPES, ExportFormat, place_of
from waygraph.registry.operations.search import CallTool

AgentId = Annotated[str, Path(description="An agent's id.", min_length=1, max_length=validation.MAX_ID_CHARS)]
ToolId = Annotated[str, Path(description="A tool's id or its call name.", min_length=1)]

LOOK_S = 0.5
"""So often it is looked whether who called is still there."""
CLIENT_GONE = 499
"""Nobody reads it; logs have it, as other servers' logs do."""


class Part(Parameters):
    """Which part of a list."""

    limit: int = Field(default=100, ge=1, le=validation.MAX_PART)
    """How many to give at most."""
    cursor: str = Field(default="", max_length=4096)
    """`following` of the part before."""

    @property
    def start(self) -> str:
        """The id after which the part begins. Raises InvalidQuery."""
        return validation.after(self.cursor)

    def model_post_init(self, _: Any) -> None:
        """Raises InvalidQuery."""
        _ = self.start


class AgentFilters(Parameters):
    """Which agents."""

    tag: list[Name] = Field(default=[], max_length=validation.MAX_NAMES)
    """Only agents with any of these tags."""
    kind: list[AgentKind] = Field(default=[], max_length=5)
    """Only agents of any of these kinds."""
    agent: list[Name] = Field(default=[], max_length=validation.MAX_NAMES)
    """Only these agents, by id."""
    without_tag: list[Name] = Field(default=[], max_length=validation.MAX_NAMES)
    """No agents with any of these tags."""
    without_kind: list[AgentKind] = Field(default=[], max_length=5)
    """No agents of any of these kinds."""
    without_agent: list[Name] = Field(default=[], max_length=validation.MAX_NAMES)
    """Not these agents, by id."""
    reachable: bool = False
    """Leave out agents that could not be reached, or fail."""
    within: CategoryPath = ""
    toolset: ToolsetName = ""

    def filters(self) -> Filters:
        lists = {field: getattr(self, param) for param, field in validation.FILTER_LISTS.items()}
        return shapes.read(Filters, {**self.model_dump(include={"reachable", "within", "toolset"}), **lists})


class AgentsPart(Part, AgentFilters):
    text: str = Field(
        default="",
        max_length=validation.MAX_NAME_CHARS,
        description="Only agents with all of these words, or parts of words, in their id, name, description, tags or "
        "the ids of their tools.",
    )
    state: list[catalog.AgentState] = Field(default=[], max_length=8)
    """Only agents in any of these states; `runs`: a call can be tried here."""
    source: list[Name] = Field(default=[], max_length=validation.MAX_NAMES)
    """Only agents that these sources claim."""
    least_tools: int = Field(default=0, ge=0, le=10**6)
    """Only agents with at least so many tools."""


class CategoryQuery(AgentFilters):
    path: str = Field(default="", max_length=validation.MAX_NAME_CHARS)
    """A category, such as travel/flights; empty: the root."""


class Schemas(Parameters):
    """Whether tools are told whole."""

    tool_schema: bool = Field(default=False, alias="schema")
    """Tell the schemas of tools too."""


class ToolsPart(Part, Schemas):
    agent: str | None = Field(default=None, max_length=validation.MAX_ID_CHARS)
    """Only the tools of this agent, by its id."""


def _stamp_of_agents(exchange: Exchange) -> str:
    """What a person vouched for makes no revision, but runs."""
    gateway: OfferedGateway | None = exchange.request.app.state.gateway
    return f"{exchange.registry.stamp} {digest(str(gateway and gateway.reach.stamp))}"


@handles(catalog.ListAgents.operation, stamp=_stamp_of_agents)
def agents(exchange: Exchange, part: Annotated[AgentsPart, Query()]) -> Shape:
    """The agents, by id, each with the number of its tools."""
    filters, why_not = part.filters(), exchange.why_not
    search = catalog.AgentSearch(
        text=part.text, states=tuple(part.state), sources=tuple(part.source), least_tools=part.least_tools
    )
    if search != catalog.AgentSearch():
        store = exchange.service.registry.store
        ids = store.look(lambda index: catalog.search_agents(index, search, exchange.principal, why_not))
        fit = set(ids).intersection(filters.agent_ids or ids)
        filters = replace(filters, agent_ids=tuple(fit) or (NOBODY,))
    page = exchange.registry.agents_page(
        filters=filters, after=part.start, limit=part.limit, principal=exchange.principal
    )
    shape = catalog.ListAgents().write(page, exchange.transport_filter)
    for item, each in zip(shape["agents"], page.items, strict=True):
        item["cannot_run"] = why_not(each.agent)
    return shape


@handles(catalog.GetAbout.operation, stamp=_stamp_of_agents)
def agent(exchange: Exchange, agent_id: AgentId, detail: Annotated[Schemas, Query()]) -> Shape:
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""
    facts = exchange.registry.about(agent_id, principal=exchange.caller.writer)
    shape = shapes.about(facts, schemas=detail.tool_schema, transport=exchange.transport_filter)
    return {**shape, "cannot_run": exchange.why_not(facts.agent)}


@handles(catalog.ListTools.operation)
def tools(exchange: Exchange, part: Annotated[ToolsPart, Query()]) -> Shape:
    """The tools of all agents, or of one, by id."""
    page = exchange.registry.tools(part.agent, after=part.start, limit=part.limit, principal=exchange.principal)
    return {**shapes.tools(page.items, schemas=part.tool_schema), **place_of(page)}


@handles(catalog.GetTool.operation)
def tool(exchange: Exchange, tool_id: ToolId, detail: Annotated[Schemas, Query()]) -> Shape:
    """One tool, by its id or its call name."""
    tool = exchange.registry.tool(tool_id, principal=exchange.caller.writer)
    shape = shapes.tool(tool, schemas=detail.tool_schema)
    if detail.tool_schema and exchange.transport_filter is None:
        shape["source_form"] = _source_form(exchange, tool.id)
    return shape


def _source_form(exchange: Exchange, tool_id: str) -> Shape | None:
    form = exchange.service.registry.store.look(lambda index: index.stated_tool(tool_id))
    if form is None:
        return None
    tool, setting = form
    shape = shapes.tool(tool)
    return {**{name: shape[name] for name in ("description", "input_schema")}, "setting": shapes.shape(setting)}


@handles(CallTool.operation)
async def call_tool(exchange: Exchange, body: CallRequest, tool_id: ToolId) -> Response:
    """Run a tool, by its id or call name, by the same policy as for hosts of MCP. Nobody can be asked: a tool that a
    person has to agree to is refused, unless one has given `consent` in the explorer.
    """
    request, service = exchange.request, exchange.service
    gateway: OfferedGateway | None = request.app.state.gateway
    if gateway is None:
        raise NotCallable(tool_id, NO_GATEWAY)
    more: dict[str, Any] = {"authorization": request.headers.get("authorization", ""), "for_model": body.for_model}
    more |= {"url": str(request.base_url), "timeout_s": body.timeout_s}
    more |= {"door": "explorer" if is_of_page(request) else "rest"}
    is_recorded = service.settings.explorer_calls
    if is_recorded and _is_of_person(exchange):
        more["consent"] = body.consent
    call_tool_here = (await gateway.await_gateway()).call_tool
    working = asyncio.ensure_future(call_tool_here(exchange.caller, tool_id, body.arguments, **more))
    record = service.recorded_calls.record(exchange.caller, tool_id, body.arguments) if is_recorded else nullcontext()
    try:
        with record as call:
            result = await _wait_while_connected(request, working)
    except asyncio.CancelledError:
        if not working.cancelled():  # the service ends, and not the client
            working.cancel()
            raise
        return Response(status_code=CLIENT_GONE)
    if call:
        await service.lanes.wait(lambda: note_result(call, result))
    return exchange.as_json(result)


async def _wait_while_connected[T](request: Request, working: "asyncio.Future[T]") -> T:
    """Its result. Who goes away waits for it no more: it is cancelled, also at its server."""
    while not working.done():
        await asyncio.wait([working], timeout=LOOK_S)
        if not working.done() and await request.is_disconnected():
            working.cancel()
    return await working


def _is_of_person(exchange: Exchange) -> bool:
    """By a session of the explorer; or from this machine, where nobody is asked who they are."""
    client = exchange.request.client
    is_asked = exchange.service.authenticator is not None
    return SESSION in exchange.request.scope or (not is_asked and client is not None and is_loopback(client.host))


class CallsQuery(Parameters):
    """Which calls."""

    tool: str = Field(default="", max_length=2 * validation.MAX_NAME_CHARS)
    """Only calls of this tool, by its id."""
    limit: int = Field(default=50, ge=1, le=validation.MAX_PART)
    """How many to give at most."""


@handles(operations.RECORDED_CALLS)
def recorded_calls(exchange: Exchange, query: Annotated[CallsQuery, Query()]) -> Shape:
    """The last calls of tools by `POST /v1/tools/…/call`, the newest first: the caller's own, of tools that the caller
    may see now; an admin who sees everything sees those of all. Kept in the memory of a process, until it stops, where
    the operator lets people call tools from the explorer.
    """
    caller, store = exchange.caller, exchange.service.registry.store
    sees_all = caller.sees_everything and "admin" in caller.scopes
    calls = exchange.service.recorded_calls.list("" if sees_all else caller.id)
    names = {call.tool for call in calls}
    ids = store.look(lambda index: find_all_named(index, names, exchange.principal)) if names else {}
    pairs = ((ids.get(call.tool, ("", ""))[1], call) for call in calls)
    of_tool = ((tool_id, call) for tool_id, call in pairs if tool_id and query.tool in ("", tool_id))
    return {"calls": [{**shapes.shape(call), "tool": tool_id} for tool_id, call in islice(of_tool, query.limit)]}


serve(Browse, model=CategoryQuery, make=lambda _, __, query: Browse(path=query.path, filters=query.filters()))


@handles(operations.LOGINS)
def logins(exchange: Exchange) -> Shape:
    """The caller's own logins at servers that are called as each caller, of agents that the caller may see."""
    visible_ids = {agent.id for agent in exchange.registry.agents(principal=exchange.principal)}
    own = [each for each in login_file(exchange.service.settings).list() if each.caller == exchange.caller.id]
    return {"logins": [{"agent_id": e.agent_id, "by": e.by, "at": e.at} for e in own if e.agent_id in visible_ids]}


def _stamp_of_sources(exchange: Exchange) -> str:
    """A sync that finds nothing new makes no revision, but was here; nor does what fails."""
    states = [(source.seen_at, source.pause_s, source.failures) for source in exchange.sources]
    return f"{exchange.registry.stamp} {digest(str((states, _list_looks(exchange))))}"


_SOON_S = 10.0
"""Within so long it is not said when a source is looked at: a list would be another one each second."""


def _list_looks(exchange: Exchange) -> list[Shape]:
    names = {source.name for source in exchange.sources}
    looks = exchange.service.follower.looks()
    return [
        {"name": name, "every_s": every_s, "next_at": at if every_s > _SOON_S else ""}
        for name, (every_s, at) in sorted(looks.items())
        if name in names or exchange.caller.sees_everything
    ]


@handles(catalog.ListSources.operation, stamp=_stamp_of_sources)
def sources(exchange: Exchange) -> Shape:
    """The sources, each with the agents that it claims, what people call them, and which this service follows."""
    titles = titles_of(source.name for source in exchange.sources)
    answer = shapes.sources(exchange.sources, exchange.transport_filter)
    return {**answer, "titles": titles, "looks": _list_looks(exchange)}


def _stamp_of_status(exchange: Exchange) -> str:
    """What fails makes no revision."""
    return f"{exchange.registry.stamp} {digest(str(exchange.status.failures))}"


@handles(catalog.GetStatus.operation, stamp=_stamp_of_status)
def status(exchange: Exchange) -> Shape:
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""
    shape = shapes.status(exchange.status, exchange.transport_filter)
    return shape if exchange.caller.sees_everything else {**shape, "location": ""}


class ExportQuery(Parameters):
    format: ExportFormat = "json"
    """What to write."""


@handles(Export.operation)
async def export(exchange: Exchange, query: Annotated[ExportQuery, Query()]) -> Response:
    """The whole registry as a file. It needs the scope `admin` and a caller who sees everything."""
    exchange.caller.require("admin")
    exchange.caller.require_everything("an export")
    content = await exchange.service.lanes.wait(lambda: exchange.registry.operator.export(query.format))
    headers = {"Content-Disposition": f'attachment; filename="registry.{query.format}"'}
    media_type = MEDIA_TYPES[query.format]
    return Response(content.encode("utf-8", "replace"), media_type=media_type, headers=headers)


serve(ListToolsets, extend=lambda exchange, _: {"revision": exchange.status.state.revision})
serve(DrawMap, lane=Lanes.draw)
