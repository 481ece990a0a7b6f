"""The MCP server: the SDK's, of both protocol eras, over one gateway."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import anyio
from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    ListResourcesResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SetLevelRequestParams,
    TextResourceContents,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from waygraph.api.mcp.asking_host import Heard, SessionHost, takes
from waygraph.api.mcp.calling import Wanted, call_tool, wanted_by_use_tool
from waygraph.api.mcp.connection import Context, connection_of
from waygraph.api.mcp.failures import as_error, failed, internal
from waygraph.api.mcp.finding import questions
from waygraph.api.mcp.listening import Listeners
from waygraph.api.mcp.listing import Pages
from waygraph.api.mcp.parking import Wanted as Awaited
from waygraph.api.mcp.surface import IDENTITY, USE_TOOL, instructions, version
from waygraph.api.mcp.unsieved import as_it_is, unsieved
from waygraph.registry.discovery.capabilities import capabilities
from waygraph.registry.errors import WaygraphError

if TYPE_CHECKING:
    from mcp.server.models import InitializationOptions

    from waygraph.api.mcp.gateway import Asker, Gateway
    from waygraph.api.mcp.listed import Listed
    from waygraph.ingest.calling.call import Host, Result

CAPABILITIES = "waygraph://capabilities"


class GatewayServer(Server[dict[str, Any]]):
    """Tells hosts of the handshake era too that its list may change: by itself the SDK's does not."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> "InitializationOptions":
        notifies = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(notifies, experimental_capabilities, extensions)


def server_of(gateway: "Gateway", listeners: Listeners) -> GatewayServer:
    """It answers while `running` is entered."""
    answers = _Answers(gateway, listeners)
    server = GatewayServer(
        IDENTITY["name"],
        version=version(),
        title=IDENTITY["title"],
        instructions=instructions(gateway.surface),
        get_tool_input_schema=lambda _: None,  # no header is agreed for any tool, see `listing`
        on_list_resources=answers.list_resources,
        on_read_resource=answers.read_resource,
        on_subscriptions_listen=listeners.streams,
    )
    server.add_request_handler("tools/list", PaginatedRequestParams, answers.list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, answers.call_tool)
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, answers.set_level)
    server.add_notification_handler("notifications/initialized", NotificationParams, answers.initialized)
    server.middleware.append(unsieved)
    return server


@asynccontextmanager
async def running(gateway: "Gateway", listeners: Listeners, listed: "Listed | None") -> AsyncGenerator[None]:
    """The gateway at work: calls may wait for their hosts, and hosts are told of changes, also since `listed`."""
    parked = gateway.parking.open() if gateway.parking is not None else nullcontext()
    async with parked, anyio.create_task_group() as tasks:
        tasks.start_soon(listeners.follow, gateway, listed)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


class _Answers:
    """What the server answers, method by method."""

    def __init__(self, gateway: "Gateway", listeners: Listeners) -> None:
        self._gateway, self._listeners, self._pages = gateway, listeners, Pages()

    async def list_tools(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        asker = self._gateway.asker_of(ctx)
        try:
            page = await self._pages.page(self._gateway, asker, params.cursor or "")
        except (WaygraphError, TimeoutError) as error:
            raise as_error(error) from error
        return as_it_is(ctx, page)

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        try:
            answer = await self._called(ctx, params)
        except (WaygraphError, TimeoutError) as error:
            answer = failed(error)
        except MCPError:
            raise
        except Exception as error:
            raise internal(error) from error  # the SDK would tell the host its words
        if isinstance(answer, Awaited):
            requests = {key: dict(request) for key, request in answer.requests.items()}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": answer.ticket}
        return as_it_is(ctx, answer)

    async def _called(self, ctx: Context, params: CallToolRequestParams) -> "Result | Awaited":
        gateway, asker = self._gateway, self._gateway.asker_of(ctx)
        arguments = params.arguments or {}
        if ask := questions(gateway.surface).get(params.name):
            return await ask(gateway, asker, arguments)
        hearing = Heard(ctx, asker.session)
        if params.request_state is not None and gateway.parking is not None:
            asker.caller.require("use")
            answers = (ctx.params or {}).get("inputResponses") or {}
            return await gateway.parking.go_on(params.request_state, asker.caller.id, answers, hearing)
        deadline_s, waited_s = gateway.deadline_s(ctx.meta), gateway.waited_s(ctx)
        if params.name == USE_TOOL and gateway.surface != "rfc":
            wanted = wanted_by_use_tool(arguments, deadline_s, waited_s)
        else:
            wanted = Wanted(name=params.name, arguments=arguments, deadline_s=deadline_s, waited_s=waited_s)
        return await self._run(ctx, asker, wanted, hearing)

    async def _run(self, ctx: Context, asker: "Asker", wanted: Wanted, hearing: Heard) -> "Result | Awaited":
        async def run(host: "Host") -> Mapping[str, Any]:
            return await call_tool(self._gateway, asker, wanted, host)

        host_can = ctx.session.client_capabilities
        parking = self._gateway.parking
        if parking is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and _takes_any(host_can):
            return await parking.begin(asker, host_can, hearing, run)
        return await run(SessionHost(ctx, asker))

    async def list_resources(self, ctx: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:  # noqa: ARG002
        described = "What this gateway can do: how it finds tools, in which forms it gives them, its limits."
        resource = Resource(uri=CAPABILITIES, name="capabilities", description=described, mime_type="application/json")
        return ListResourcesResult(resources=[resource], ttl_ms=0, cache_scope="private")

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if params.uri != CAPABILITIES:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no resource {params.uri[:200]!r}")
        asker = self._gateway.asker_of(ctx)
        try:
            asker.caller.require("route")
            told = await self._gateway.ask(lambda: capabilities(self._gateway.registry))
        except (WaygraphError, TimeoutError) as error:
            raise as_error(error) from error
        told |= {"surface": self._gateway.surface}
        contents = TextResourceContents(uri=CAPABILITIES, mime_type="application/json", text=json.dumps(told))
        return ReadResourceResult(contents=[contents], ttl_ms=0, cache_scope="private")

    async def set_level(self, ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._gateway.asker_of(ctx).session.log_level = params.level
        return EmptyResult()

    async def initialized(self, ctx: Context, params: NotificationParams) -> None:  # noqa: ARG002
        self._listeners.add(connection_of(ctx))


def _takes_any(host_can: Any) -> bool:
    return any(takes(host_can, question) for question in ("elicitation/create", "sampling/createMessage", "roots/list"))
