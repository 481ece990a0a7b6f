"""A host's stdio to the `/mcp` of a running service: many hosts on one machine share one service and its servers.

Messages pass as they are. The bridge adds what HTTP has and stdio lacks: headers, and the session of the handshake
era. When the service has lost that session, the bridge begins another one, and the host does not notice.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

import anyio
import httpx2
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared import inbound
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from waygraph.api.mcp.results import protocol_error
from waygraph.api.mcp.stdio import host_streams, leave, until_signal
from waygraph.ingest.upstream import wire
from waygraph.registry.model.errors import ServiceUnavailable, WaygraphError
from waygraph.registry.model.process import loop_options
from waygraph.registry.model.settings import Settings
from waygraph.registry.remote import transport
from waygraph.registry.remote.calls import Call, Reply
from waygraph.registry.storage.location import ServiceAddress, api_key

NOTICE_S, LEAVE_S, LISTEN_S = 10.0, 1.0, 2.0
"""For the answer to what asks nothing; for that to the end of a session; before a stream that broke is opened again."""
_SESSION, _VERSION = "mcp-session-id", inbound.MCP_PROTOCOL_VERSION_HEADER
_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_MESSAGE: Call[None] = Call(method="POST", path="/mcp", read=lambda _: None, safe=False)
"""What every message is to the rules of repeats: it may have been done once it was sent."""


def serve_bridge(place: str, settings: Settings, *, namespace: str = "") -> None:
    """Serves this process's stdio from the service at `place`, until the host closes its end, or SIGTERM or SIGINT.

    Raises InvalidSetting for a place or key that cannot be used.
    """
    address = ServiceAddress.parse(place)
    api_key(address, settings)  # refused here, not in a task
    url = f"{address.url}/{namespace}/mcp" if namespace else f"{address.url}/mcp"
    anyio.run(_serve, address, url, settings, backend_options=loop_options())


async def _serve(address: ServiceAddress, url: str, settings: Settings) -> None:
    with wire.quietly():
        async with host_streams() as (from_host, to_host):
            wire.hush()  # the loggers are there by now
            client = ServiceClient(address, settings, to_host)
            async with (
                client,
                streamable_http_client(
                    url, http_client=client, max_sse_event_size=transport.MAX_ANSWER_BYTES
                ) as service,
            ):
                bridge = Bridge(to_host, service[1], address.url)
                is_stopped = await until_signal(lambda: bridge.run(from_host, service[0]))
            if is_stopped:
                leave()


class Bridge:
    """Messages of a host to the service, with the headers that HTTP wants (MCP 2026-07-28, Transports), and back."""

    def __init__(self, to_host: Any, to_service: Any, place: str) -> None:
        self._to_host, self._to_service, self._place = to_host, to_service, place
        self._version = ""  # what the handshake agreed on; empty before it and in the modern era

    async def run(self, from_host: Any, from_service: Any) -> None:
        """Until one of both ends."""

        async def pass_back() -> None:
            async for item in from_service:
                if isinstance(item, SessionMessage):
                    await self._to_host.send(self._translate(item))
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_back)
            async for item in from_host:
                await self._to_service.send(self._stamp(item.message))
            tasks.cancel_scope.cancel()

    def _stamp(self, message: types.JSONRPCMessage) -> SessionMessage:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.method == "initialize":
            return SessionMessage(message)
        params = message.params or {}
        meta = params.get("_meta")
        version = meta.get(types.PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
        if not isinstance(version, str) or not version.isascii():
            headers = {_VERSION: self._version} if self._version else {}
            return SessionMessage(message, ClientMessageMetadata(headers=headers))
        headers = {_VERSION: version, inbound.MCP_METHOD_HEADER: message.method}
        name = params.get(inbound.NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(name, str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
        return SessionMessage(message, ClientMessageMetadata(headers=headers))

    def _translate(self, item: SessionMessage) -> SessionMessage:
        message = item.message
        if isinstance(message, types.JSONRPCResponse) and "serverInfo" in message.result:
            self._version = str(message.result.get("protocolVersion", ""))
        if not isinstance(message, types.JSONRPCError):
            return item
        code, text, error = message.error.code, message.error.message, {}
        if code == types.CONNECTION_CLOSED and text.startswith("SSE stream "):  # the SDK's, where an answer broke off
            error = protocol_error(went_away(self._place))
        elif code == types.PARSE_ERROR and text.startswith(wire.UNREAD):
            error = protocol_error(transport.stranger(200, self._place))
        return SessionMessage(message.model_copy(update={"error": types.ErrorData(**error)})) if error else item


class ServiceClient(httpx2.AsyncClient):
    """Of one service. It never raises for what the service or the network does: an error would end the SDK's transport,
    where an answer that says why ends one request.
    """

    def __init__(self, address: ServiceAddress, settings: Settings, to_host: Any) -> None:
        # Streams for what the service tells by itself stay open: no number of sockets is enough for all hosts.
        sockets = httpx2.Limits(max_connections=None, max_keepalive_connections=transport.POOL_SIZE)
        timeout = httpx2.Timeout(None, connect=transport.CONNECT_TIMEOUT_S)  # who asks has a deadline
        super().__init__(**transport.client_options(address, settings) | {"limits": sockets}, timeout=timeout)
        self._place, self._to_host = address.url, to_host
        self._limits = transport.Limits(address.url, settings, time.monotonic)
        self._session, self._greeting, self._renewing = "", b"", anyio.Lock()

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        message = wire.message_in(request)
        if request.method != "GET" and "id" not in message:
            timeout_s = LEAVE_S if request.method == "DELETE" else NOTICE_S
            request.extensions["timeout"] = httpx2.Timeout(timeout_s).as_dict()
        if message.get("method") == "initialize":
            request.headers.pop(_SESSION, None)
        try:
            return await self._answer(request, message, **how)
        except WaygraphError as error:
            return wire.error_to(request, 502, protocol_error(error))

    async def _answer(self, request: httpx2.Request, message: Mapping[str, Any], **how: Any) -> httpx2.Response:
        response = await self._send_patiently(request, **how)
        if response.status_code == 404 and self._greeting and (lost := request.headers.get(_SESSION)):
            await response.aclose()
            await self._renew(request, lost)
            response = await self._send_patiently(request, **how)
        if message.get("method") == "initialize" and response.status_code == 200:
            self._session, self._greeting = response.headers.get(_SESSION, ""), request.content
        is_answer = wire.kind_of(response) in wire.KINDS and response.status_code == 200
        if is_answer or (response.status_code < 400 and not {"id", "method"} <= message.keys()):
            return response
        return await self._refusal(request, response)

    async def _refusal(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The service's own error in JSON-RPC. Raises the error that any other answer means."""
        body = response.content if response.is_closed else await wire.start_of(response)
        if response.status_code >= 400 and wire.error_code(body) is not None:
            return wire.answer_to(request, response.status_code, body)
        transport.answer_of(_MESSAGE, Reply(response.status_code, dict(response.headers), body), self._place)
        raise transport.stranger(response.status_code, self._place)

    async def _renew(self, request: httpx2.Request, lost: str) -> None:
        """Begins a session as the host began the first one. Raises WaygraphError if the service does not take it."""
        async with self._renewing:
            if lost != self._session:
                return
            headers = {**_HEADERS, _VERSION: request.headers.get(_VERSION, "2025-03-26")}
            hello = self.build_request("POST", request.url, content=self._greeting, headers=headers)
            hello.extensions["timeout"] = httpx2.Timeout(self._limits.settings.remote_timeout_s).as_dict()
            response = await self._send_patiently(hello)
            if response.status_code != 200:
                transport.answer_of(
                    _MESSAGE, Reply(response.status_code, dict(response.headers), response.content), self._place
                )
            self._session = headers[_SESSION] = response.headers.get(_SESSION, "")
            opened = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._send_patiently(self.build_request("POST", request.url, json=opened, headers=headers))
        changed = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
        await self._to_host.send(SessionMessage(changed))  # by now other tools may be there

    async def _send_patiently(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Sent again as long as the service is just starting. Raises ServiceUnavailable, ServiceFailed."""
        if _SESSION in request.headers:
            request.headers[_SESSION] = self._session
        attempts = transport.Attempts(_MESSAGE, self._limits, random.random)
        while True:
            try:
                response = await super().send(request, **how)
                if response.status_code == 200 and wire.kind_of(response) == "application/json":
                    await response.aread()
                return response
            except httpx2.HTTPError as exc:
                broken = self._limits.failed_call(_MESSAGE, exc)
            listens = LISTEN_S if request.method == "GET" and broken.passing else None
            pause_s = attempts.wait_s(broken) if "id" in wire.message_in(request) else listens
            if pause_s is None:
                raise went_away(self._place) if broken.sent and broken.passing else broken.error
            await anyio.sleep(pause_s)


def went_away(place: str) -> ServiceUnavailable:
    """For a request that was sent and not answered: a repetition might do it twice."""
    error = ServiceUnavailable(place, "it went away before it answered; whether it did what was asked is not known")
    error.retryable = False
    return error
