"""The MCP server: the SDK's, of both protocol eras, over one gateway.

A prompt is fetched, a resource read, an argument completed: at its own server, by the rules that hold for tools.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from mcp import MCPError, types
from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.types import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp.types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field

from waygraph.api.mcp import calls, meta_tools, results
from waygraph.api.mcp.gateway import Gateway, Parts, open_gateway
from waygraph.api.mcp.long_results import PAGE_TYPE, RESULTS
from waygraph.api.mcp.meta_tools import RUN_CODE
from waygraph.api.mcp.offers import AGENTS, Kind, address_of, find_owner, offers_page, stand_in
from waygraph.api.mcp.pending_calls import TASK_ADDRESS, InputRequest, Run, TaskState, task_state
from waygraph.api.mcp.protocol import UNFIT, is_url, mend_item, mend_result
from waygraph.api.mcp.results import WHOSE, attribute_error
from waygraph.api.mcp.sessions import (
    Asker,
    CallNews,
    Context,
    FetchingHost,
    SessionHost,
    connection_of,
    sign_requests,
    takes,
)
from waygraph.api.mcp.skills import SCHEME, resources_of, skill_at, skill_entry, skills_page
from waygraph.api.mcp.tool_list import Listeners, cache_hints, promised_output, summary_of, tools_page
from waygraph.ingest.execution.call import text
from waygraph.ingest.manifest.fields import fields_of, items_of, text_of
from waygraph.ingest.upstream.calls import TASK, TASK_METHODS, TASKS
from waygraph.ingest.upstream.connection import SKILLS, Host, NotOffered, Question, Result
from waygraph.registry.catalog.find import capabilities
from waygraph.registry.model.errors import NotCallable, UpstreamAnswered, UpstreamRefused, WaygraphError
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.tracing import OTHER, Name, is_tracing, mcp_operation, note_target
from waygraph.registry.model.usage import HostEvent

MOST_VALUES = 100
"""Of a completion, by MCP."""
_NOTHING: Result = {"completion": {"values": []}}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferCall:
    """What a host asks of a prompt, resource or template. `params`: those of the request beside its name.

    `completes`: an argument is completed, for which nobody is asked anything.
    """

    kind: Kind
    address: str
    params: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    completes: bool = False

    @property
    def method(self) -> str:
        if self.completes:
            return calls.COMPLETE
        return "prompts/get" if self.kind == "prompt" else "resources/read"

    def params_for(self, name: str) -> dict[str, Any]:
        """With the server's own name of it."""
        key = "name" if self.kind == "prompt" else "uri"
        if not self.completes:
            return {key: name, **self.params}
        return {"ref": {"type": f"ref/{'prompt' if self.kind == 'prompt' else 'resource'}", key: name}, **self.params}


async def call_offer(gateway: Gateway, asker: Asker, offer: OfferCall, host: Host) -> Result:
    """The server's own answer. Raises what refuses the call, and what the executor raises.

    UpstreamAnswered names the agent.
    """
    arguments = offer.params.get("arguments") or {}
    with calls.record_call(gateway, asker.caller, offer.address, arguments) as attempt:
        asker.caller.require("use")
        owner = await gateway.ask(lambda: skill_at(gateway, asker, offer.address))
        agent, name = owner or await find_owner(gateway, asker, offer.kind, offer.address)
        tool = stand_in(offer.kind, agent, name)
        attempt.target = tool.id
        if offer.kind == "prompt":
            note_target(Name.PROMPT, offer.address)
        full_name = address_of(offer.kind, agent.id, name)
        judgement = await gateway.ask(lambda: gateway.judge(asker, agent, tool, full_name))
        if judgement.verdict == "ask":
            if offer.completes:
                return _NOTHING
            await calls.require_consent(host, agent, tool, arguments, judgement.reason)
            await gateway.ask(lambda: _recheck(gateway, asker, agent, tool, full_name))
        params = offer.params_for(name)
        call = gateway.tool_call(asker, agent, tool, params, offer.deadline_s, host=host, method=offer.method)
        try:
            result = await calls.run_call(gateway, asker, call, host)
        except UpstreamAnswered as error:
            raise attribute_error(error, tool.id) from error
        except NotOffered:
            if offer.completes:
                return _NOTHING
            raise
        return _read_answer(offer, agent, result)


async def read_as_tool(gateway: Gateway, asker: Asker, offer: OfferCall, host: Host) -> Result:
    """A resource as a tool's result, for a model, cut as any other."""
    read = await call_offer(gateway, asker, offer, host)
    result = {"content": [{"type": "resource", "resource": each} for each in read["contents"]], "_meta": read["_meta"]}
    return gateway.long_results.hand_on(result, read["_meta"][WHOSE], asker)


def _recheck(gateway: Gateway, asker: Asker, agent: Agent, tool: Tool, name: str) -> None:
    """A person takes time. Raises UnknownName for an agent that is gone, NotCallable for one that became another."""
    now = gateway.view(asker).registry.agent(agent.id, principal=asker.principal)
    if now.hidden or now.content_hash != agent.content_hash:
        raise NotCallable(name, "its agent became another while a person was asked")
    gateway.judge(asker, now, tool, name)


def _read_answer(offer: OfferCall, agent: Agent, result: Result) -> Result:
    """As a host takes it, with the id of its agent. Raises UpstreamRefused for one of another method."""
    if offer.completes:
        answer = mend_result(offer.method, {**result, "completion": _completion(result.get("completion"))})
    else:
        field = "messages" if offer.kind == "prompt" else "contents"
        items = result.get(field)
        mended = [mend_item(offer.method, field, _with_address(offer, agent, each)) for each in items_of(items)]
        is_whole = isinstance(items, list) and UNFIT not in mended
        answer = mend_result(offer.method, {**result, field: mended}) if is_whole else UNFIT
    if isinstance(answer, Mapping):
        return {**answer, "_meta": {**answer.get("_meta", {}), WHOSE: agent.id}}
    raise UpstreamRefused(f"{agent.id}: its answer is none that the protocol has for {offer.method}")


def _with_address(offer: OfferCall, agent: Agent, item: Any) -> Any:
    """With our address, if the host read it by ours, or if it could not take the server's own."""
    if agent.kind == "skill" and isinstance(item, Mapping):
        return {**item, "uri": offer.address}
    uri = item.get("uri") if isinstance(item, Mapping) and offer.kind != "prompt" else None
    if isinstance(uri, str) and (offer.address.startswith("waygraph:") or not is_url(uri)):
        return {**item, "uri": address_of("resource", agent.id, uri)}
    return item


def _completion(completion: Any) -> Any:
    """No more values than a completion may have."""
    values = completion.get("values") if isinstance(completion, Mapping) else None
    if not isinstance(values, list) or len(values) <= MOST_VALUES:
        return completion
    return {**completion, "values": values[:MOST_VALUES], "hasMore": True}


# Answers reach the host as they are.
#
# The SDK reads each answer into its own types on the way out. That drops fields it does not know, and changes the order
# of the keys of schemas. It refuses a result for one content block of a newer kind. What tools answer is theirs, so
# handlers hand it past the SDK; what belongs to the protocol (its envelope) the SDK still makes.


_STALE = {"ttlMs": 0, "cacheScope": "private"}
_EMPTY: Mapping[str, dict[str, Any]] = {
    "tools/call": {"content": []},
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": [], **_STALE},
    "prompts/get": {"messages": []},
    "resources/list": {"resources": [], **_STALE},
    "resources/templates/list": {"resourceTemplates": [], **_STALE},
    "resources/read": {"contents": [], **_STALE},
    "completion/complete": {"completion": {"values": []}},
}
_ENVELOPE = ("resultType", "ttlMs", "cacheScope")
"""Fields of the protocol itself: ours, also where an upstream server has set them."""

_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS | TASK_METHODS

_WHOLE: ContextVar[list[Mapping[str, Any]]] = ContextVar("whole")


def as_it_is(ctx: ServerRequestContext[Any, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a handler returns so that the host gets this answer whole."""
    _WHOLE.get().append(answer)
    envelope = {name: answer[name] for name in _ENVELOPE if ctx.method == "tools/list" and name in answer}
    return {"resultType": "complete"} | _EMPTY[ctx.method] | envelope


async def pass_unsieved(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server."""
    if ctx.method not in _EMPTY:
        return await call_next(ctx)
    whole: list[Mapping[str, Any]] = []
    token = _WHOLE.set(whole)
    try:
        envelope = await call_next(ctx)
    finally:
        _WHOLE.reset(token)
    return _lay_over(envelope, whole[-1], ctx.protocol_version) if whole and isinstance(envelope, dict) else envelope


async def observe(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server: a span and a duration by OpenTelemetry's conventions.

    A host may name any method and any tool: only those that exist name a span.
    """
    name, method = (ctx.params or {}).get("name"), ctx.method if ctx.method in _METHODS else OTHER
    network = "pipe" if ctx.request is None else "tcp"
    with mcp_operation("server", method, version=ctx.protocol_version, transport=network, meta=ctx.meta) as operation:
        if ctx.request_id is not None:
            operation.attributes[Name.REQUEST_ID] = str(ctx.request_id)
        if method == "tools/call" and isinstance(name, str) and meta_tools.is_meta_tool(name):
            operation.attributes[Name.TOOL] = name
        answer = await call_next(ctx)
        operation.note_answer(answer)
        return answer


def _lay_over(envelope: Mapping[str, Any], answer: Mapping[str, Any], version: str) -> dict[str, Any]:
    ours = {name: value for name, value in envelope.items() if name in _ENVELOPE}
    theirs = {name: value for name, value in answer.items() if name not in (*_ENVELOPE, "_meta")}
    theirs_beside = answer.get("_meta")
    their_meta = theirs_beside if isinstance(theirs_beside, Mapping) else {}  # a server may put anything there
    meta = {name: value for name, value in their_meta.items() if name != types.SERVER_INFO_META_KEY}
    meta |= envelope.get("_meta") or {}
    whole = {**ours, **theirs} | ({"_meta": meta} if meta else {})
    return _for_older_hosts(whole) if version in HANDSHAKE_PROTOCOL_VERSIONS else whole


def _for_older_hosts(answer: dict[str, Any]) -> dict[str, Any]:
    """Up to the revision of 2025-11-25 `structuredContent` is an object, and a host refuses anything else.

    The text that stands beside it says the same; where there is none it is made.
    """
    if "structuredContent" not in answer or isinstance(answer["structuredContent"], dict):
        return answer
    value = answer.pop("structuredContent")
    if not answer.get("content") and value is not None:
        answer["content"] = [text(results.compact(value))]
    return answer


CAPABILITIES = "waygraph://capabilities"
SUMMARY_S = 1.0
"""So long does a host that begins wait for the summary of the registry."""
_INTRODUCTIONS = frozenset({"initialize", "server/discover"})
_HOST_EVENTS: Mapping[str, "HostEvent"] = {**dict.fromkeys(_INTRODUCTIONS, "session"), "tools/list": "list"}
NO_NAME = "a client without a name"


class GatewayServer(Server[dict[str, Any]]):
    """Tells hosts of the handshake era too that its list may change: by itself the SDK's does not."""

    gateway: Gateway

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **others: Any
    ) -> "InitializationOptions":
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options or every, *more, **others)


@asynccontextmanager
async def open_server(parts: Parts, asker_of: Callable[[Context], Asker]) -> AsyncGenerator[GatewayServer]:
    """The server over its gateway: calls may wait for their hosts, and hosts are notified of changes."""
    listeners = Listeners()
    async with open_gateway(parts, asker_of) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(listeners.follow, gateway)
        tasks.start_soon(calls.cancel_abandoned, gateway)
        yield _server_of(gateway, listeners)
        tasks.cancel_scope.cancel()


def _server_of(gateway: Gateway, listeners: Listeners) -> GatewayServer:
    answers = _Answers(gateway, listeners)
    server = GatewayServer(
        meta_tools.IDENTITY["name"],
        version=meta_tools.version(),
        title=meta_tools.IDENTITY["title"],
        instructions=meta_tools.instructions(gateway.surface),
        get_tool_input_schema=lambda _: None,  # no header is agreed for any tool, see `listing`
        on_subscriptions_listen=listeners.streams,
    )
    server.gateway = gateway
    lists, add = types.PaginatedRequestParams, server.add_request_handler
    add("tools/list", lists, answers.list_tools)
    add("tools/call", types.CallToolRequestParams, answers.call_tool)
    add("prompts/list", lists, partial(answers.list_offers, "prompt"))
    add("prompts/get", types.GetPromptRequestParams, answers.get_prompt)
    add("resources/list", lists, answers.list_resources)
    add("resources/templates/list", lists, partial(answers.list_offers, "template"))
    add("resources/read", types.ReadResourceRequestParams, answers.read_resource)
    add("skills/list", lists, answers.list_skills)
    add("skills/get", types.ReadResourceRequestParams, answers.get_skill)
    add("completion/complete", types.CompleteRequestParams, answers.complete)
    add("logging/setLevel", types.SetLevelRequestParams, answers.set_level)
    for method in TASK_METHODS:
        add(method, _TaskParams, answers.ask_task)
    server.extensions[TASKS] = {}
    server.add_notification_handler("notifications/initialized", types.NotificationParams, answers.note_initialized)
    # Where spans are sent, ours takes the place of the SDK's; else that one hands on whose span a request belongs to.
    server.middleware[: is_tracing()] = [observe]
    server.middleware.extend((pass_unsieved, answers.note_host, answers.introduce))
    return server


class _TaskParams(types.RequestParams):
    model_config = ConfigDict(extra="allow")

    task_id: str = Field(alias="taskId")


class _Answers:
    """What the server answers, method by method."""

    def __init__(self, gateway: Gateway, listeners: Listeners) -> None:
        self._gateway, self._listeners = gateway, listeners

    async def introduce(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the SDK's server: its instructions name what stands behind it for who asks."""
        if ctx.method not in _INTRODUCTIONS:
            self._listeners.begin()
        introduction = await call_next(ctx)
        if ctx.method not in _INTRODUCTIONS or not isinstance(introduction, dict):
            return introduction
        asker, summary = self._gateway.asker_of(ctx), ""
        with suppress(WaygraphError, TimeoutError), anyio.move_on_after(SUMMARY_S):
            summary = await self._gateway.ask(lambda: summary_of(self._gateway, asker))
        kept = cache_hints(asker) if "cacheScope" in introduction else {}
        if resources := introduction.get("capabilities", {}).get("resources"):
            resources.pop("subscribe", None)  # the SDK says so of every server that tells of changed lists
        # The SDK tells hosts of the handshake era of no extension; they may ask for skills all the same.
        can = introduction.get("capabilities", {})
        can = {**can, "extensions": {**can.get("extensions", {}), SKILLS: {}}}
        instructions = f"{introduction['instructions']} {summary}".rstrip()
        return {**introduction, **kept, "capabilities": can, "instructions": instructions}

    async def note_host(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the SDK's server: what the host calls itself, and how far it has come."""
        params = ctx.params or {}
        name = params.get("name") if ctx.method == "tools/call" else None
        is_find = isinstance(name, str) and name in meta_tools.questions(self._gateway.surface)
        event = "find" if is_find else _HOST_EVENTS.get(ctx.method)
        if event is None and ctx.method != "tools/call":
            return await call_next(ctx)
        session = self._gateway.asker_of(ctx).session
        who = ctx.session.client_params
        own_name = text_of(fields_of(params.get("clientInfo")).get("name"))  # at `initialize`
        session.client = who.client_info.name if who else own_name or session.client or NO_NAME
        if event and self._gateway.usage:
            self._gateway.usage.note_host(session.client, event)
        return await call_next(ctx)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        return as_it_is(ctx, await self._ask(lambda: tools_page(gateway, asker, params.cursor or "")))

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        with results.request_errors():
            try:
                answer = await self._call(ctx, params)
            except (WaygraphError, TimeoutError) as error:
                answer = results.failure_result(error)
        if not isinstance(answer, InputRequest | TaskState) and not meta_tools.is_meta_tool(params.name):
            # A host refuses an answer that is not what the list of tools promised, and its model reads nothing of it.
            gateway, asker = self._gateway, self._gateway.asker_of(ctx)
            with suppress(WaygraphError, TimeoutError):
                promised = await gateway.ask(lambda: promised_output(gateway, asker, params.name))
                answer = answer if promised is None else results.without_broken_promise(answer, promised)
        return _reply(ctx, answer)

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> "Result | InputRequest":
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        arguments = params.arguments or {}
        if ask := meta_tools.questions(gateway.surface).get(params.name):
            with calls.note_refusal(gateway, asker, params.name):
                return await ask(gateway, asker, arguments)
        deadline_s = gateway.deadline_s(ctx.meta)
        if params.name == RUN_CODE and gateway.settings.run_code and gateway.surface == "default":
            from waygraph.api.mcp.code import run_code

            return await self._run(ctx, asker, partial(run_code, gateway, asker, arguments, deadline_s), params)
        request = calls.ToolRequest(name=params.name, arguments=arguments, deadline_s=deadline_s)
        if (runner := gateway.runner) and params.name == runner:
            with calls.note_refusal(gateway, asker, runner):
                request = calls.wanted_by_runner(params.name, arguments, deadline_s)
        if request.name.startswith(RESULTS):
            return {"content": [text(page) for page in gateway.long_results.read(request.name, asker)]}
        run: Run = partial(calls.call_tool, gateway, asker, replace(request, takes_tasks=_takes_tasks(ctx)))
        if request.name.startswith(TASK_ADDRESS):
            run = partial(calls.resume_task, gateway, asker, request.name.removeprefix(TASK_ADDRESS), deadline_s)
        elif request.name.startswith(AGENTS):
            offer = OfferCall(kind="resource", address=request.name, params={}, deadline_s=deadline_s)
            run = partial(read_as_tool, gateway, asker, offer)
        return await self._run(ctx, asker, run, params)

    async def ask_task(self, ctx: Context, params: _TaskParams) -> dict[str, Any]:
        """A host fetches, feeds or cancels a task that it was given."""
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        if not _takes_tasks(ctx):
            needs: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="needs the extension for tasks", data=needs)
        more = {name: value for name, value in (ctx.params or {}).items() if name == "inputResponses"}
        with results.request_errors():
            host, deadline_s = FetchingHost(ctx, asker), gateway.deadline_s(ctx.meta)
            call, _, task = await calls.ask_task(
                gateway, asker, params.task_id, host, deadline_s=deadline_s, method=ctx.method, **more
            )
            if ctx.method != "tasks/get":
                return {"resultType": "complete"}
            state = task_state(params.task_id, call.agent.id, task)
        if result := fields_of(task.get("result")):
            state["result"] = gateway.long_results.hand_on(result, call.tool.id, asker)
        if questions := fields_of(task.get("inputRequests")):
            capabilities = ctx.session.client_capabilities
            state["inputRequests"] = sign_requests(questions, call.agent.id, capabilities)
        return {"resultType": "complete", **state}

    async def _run(
        self, ctx: Context, asker: Asker, run: Run, params: types.InputResponseRequestParams
    ) -> "Result | InputRequest":
        """A request that a server runs; one that waits for answers goes on with those of `params`."""
        hearing, parking = CallNews(ctx, asker.session), self._gateway.parking
        if params.request_state is not None and parking is not None:
            asker.caller.require("use")
            answers = (ctx.params or {}).get("inputResponses") or {}
            return await parking.go_on(params.request_state, asker.caller.id, answers, hearing)
        host_can = ctx.session.client_capabilities
        questions: tuple[Question, ...] = ("elicitation/create", "sampling/createMessage", "roots/list")
        takes_any = any(takes(host_can, question) for question in questions)
        if parking is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and takes_any:
            return await parking.begin(asker, host_can, hearing, run)
        return await run(SessionHost(ctx, asker))

    # -- prompts and resources ---------------------------------------------------------------------

    async def list_offers(self, kind: Kind, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        return as_it_is(ctx, await self._page(ctx, kind, params))

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        page, cursor = dict[str, Any](resources=[]), params.cursor or ""
        if not cursor.startswith(SCHEME):
            page, cursor = await self._page(ctx, "resource", params), SCHEME
        if "nextCursor" not in page:  # behind what servers offer: the files of skills, for hosts without the extension
            skills, following = await self._skills(ctx, cursor.removeprefix(SCHEME))
            page = page | {"resources": [*page["resources"], *resources_of(skills)]}
            page |= {"nextCursor": f"{SCHEME}{following}"} if following else {}
        described = "What this gateway can do: how it finds tools, in which forms it gives them, its limits."
        own = {"uri": CAPABILITIES, "name": "capabilities", "description": described, "mimeType": "application/json"}
        return as_it_is(ctx, page if params.cursor else page | {"resources": [own, *page["resources"]]})

    async def list_skills(self, ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        skills, following = await self._skills(ctx, params.cursor or "")
        return {"resultType": "complete", "skills": skills, **_STALE} | ({"nextCursor": following} if following else {})

    async def get_skill(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        skill = await self._ask(lambda: skill_entry(gateway, asker, params.uri))
        return {"resultType": "complete", "skill": skill, **_STALE}

    async def _skills(self, ctx: Context, cursor: str) -> tuple[list[dict[str, Any]], str]:
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        return await self._ask(lambda: skills_page(gateway, asker, cursor))

    async def _ask[T](self, work: Callable[[], T]) -> T:
        with results.request_errors():
            return await self._gateway.ask(work)

    async def _page(self, ctx: Context, kind: Kind, params: types.PaginatedRequestParams) -> dict[str, Any]:
        with results.request_errors():
            return await offers_page(self._gateway, self._gateway.asker_of(ctx), kind, params.cursor or "")

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        arguments = {} if params.arguments is None else {"arguments": params.arguments}
        return await self._ask_server(ctx, "prompt", params.name, arguments, params)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        with results.request_errors():
            if params.uri.startswith(RESULTS):
                pages = gateway.long_results.read(params.uri, asker)
                return as_it_is(ctx, _contents(params.uri, PAGE_TYPE, pages))
            if params.uri == CAPABILITIES:
                asker.caller.require("route")
                answer = {**await gateway.ask(lambda: capabilities(gateway.registry)), "surface": gateway.surface}
                return as_it_is(ctx, _contents(CAPABILITIES, "application/json", [json.dumps(answer)]))
        return await self._ask_server(ctx, "resource", params.uri, {}, params)

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> dict[str, Any]:
        arguments = params.model_dump(by_alias=True, mode="json", exclude_none=True, include={"argument", "context"})
        if isinstance(params.ref, types.PromptReference):
            return await self._ask_server(ctx, "prompt", params.ref.name, arguments)
        return await self._ask_server(ctx, "template", params.ref.uri, arguments)

    async def _ask_server(
        self,
        ctx: Context,
        kind: Kind,
        address: str,
        arguments: Mapping[str, Any],
        params: types.InputResponseRequestParams | None = None,
    ) -> dict[str, Any]:
        """`params` None: an argument is completed."""
        gateway, asker, completes = self._gateway, self._gateway.asker_of(ctx), params is None
        deadline_s = gateway.deadline_s(ctx.meta)
        offer = OfferCall(kind=kind, address=address, params=arguments, deadline_s=deadline_s, completes=completes)
        with results.request_errors():
            run = partial(call_offer, gateway, asker, offer)
            return _reply(ctx, await self._run(ctx, asker, run, params or types.InputResponseRequestParams()))

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self._gateway.asker_of(ctx).session.log_level = params.level
        return types.EmptyResult()

    async def note_initialized(self, ctx: Context, params: types.NotificationParams) -> None:  # noqa: ARG002
        self._listeners.add(connection_of(ctx))


def _takes_tasks(ctx: Context) -> bool:
    can = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and can is not None and TASKS in (can.extensions or {})


def _reply(ctx: Context, answer: "Result | InputRequest") -> dict[str, Any]:
    """The answer, the questions that come before it, or the task that it is fetched from."""
    if isinstance(answer, TaskState):
        return {"resultType": TASK, **answer}
    if isinstance(answer, InputRequest):
        requests = {key: dict(request) for key, request in answer.requests.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": answer.ticket}
    return as_it_is(ctx, answer)


def _contents(uri: str, kind: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": kind, "text": content} for content in texts]}
