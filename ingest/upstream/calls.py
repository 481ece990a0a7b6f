"""Calls of tools over one connection, in both eras, and what a server says or asks by itself meanwhile.

Requests whose results come back as the wire had them: one, and a list that is read page by page.

The SDK checks a result against the protocol's schema, where one bad tool fails its whole page. Below that check stands
its dispatcher, which is private: `tests/upstream/test_messages.py` says what to do when it moves.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, get_args

import anyio
from mcp import Client, MCPError, types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import (
    MCP_NAME_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import SessionMessage
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from waygraph.ingest.manifest.fields import fields_of, sendable
from waygraph.ingest.upstream.connection import CALL, LISTS, Host, NotAnswered, Question, Result
from waygraph.ingest.upstream.inflight import LOG_LEVEL, CallsUnderway, Underway
from waygraph.ingest.upstream.wire import Wire
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.numbers import FAR_S, read_number
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tracing import Name, mcp_operation

MAX_PAGES = 1_000
MAX_LISTING_BYTES = 64 * 1024 * 1024
LIST_FIELDS = {"tools/list": "tools", "skills/list": "skills", **LISTS}
"""Methods that list what a server has, each with the field that holds the list."""

Explain = Callable[[MCPError, Mapping[str, Any]], Awaitable[UpstreamError]]
"""The error of a request with these parameters, in our words."""


async def raw_request(
    session: ClientSession,
    method: str,
    params: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    cancels: bool = True,
) -> Mapping[str, Any]:
    """The result, unchecked. Stamped as the era asks: headers, and `_meta` in the modern one. Raises MCPError.

    `capabilities`: what the client can for this request alone, where the era lets a request say so. `cancels`: whether
    the server is told, with a wait of up to 5 s, that nobody waits any more.
    """
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    options: CallOptions = {"cancel_on_abandon": cancels, "headers": dict(headers or {})}
    session._stamp(data, options)
    meta = data["params"].get("_meta") or {}
    if capabilities is not None and types.CLIENT_CAPABILITIES_META_KEY in meta:
        meta[types.CLIENT_CAPABILITIES_META_KEY] = dict(capabilities)
    return await session._dispatcher.send_raw_request(method, data["params"] or None, options)


async def raw_cancel(session: ClientSession, request_id: types.RequestId, reason: str) -> None:
    """Tells the server that nobody waits for that request any more, as the transport does it."""
    await session._dispatcher.notify("notifications/cancelled", {"requestId": request_id, "reason": reason})


@dataclass(slots=True)
class Items:
    """What a list holds, and for how long, as each of its pages says it."""

    items: list[Any] = field(default_factory=list)
    ttls_ms: list[Any] = field(default_factory=list)

    @property
    def lasts_s(self) -> float | None:
        """In the word of the page that says least; None: not said."""
        numbers = (number for ttl_ms in self.ttls_ms if (number := read_number(ttl_ms)) is not None)
        return min((min(max(0.0, number / 1000), FAR_S) for number in numbers), default=None)


async def all_of(session: ClientSession, explain: Explain, method: str, settings: Settings) -> Items:
    """The items of all pages, in order. Raises UpstreamError, also for a list without end."""
    name = LIST_FIELDS[method]
    result, cursor, cursors, size = Items(), "", set[str](), 0
    for _ in range(MAX_PAGES):
        params = {"cursor": cursor} if cursor else {}
        try:
            page = await raw_request(session, method, params)
        except MCPError as error:
            raise await explain(error, params) from None
        items = [] if page.get(name, "") is None else page.get(name)
        if not isinstance(items, list):
            raise UpstreamRefused(f"{method}: its answer has no list of {name}")
        result.items += items
        result.ttls_ms += [page["ttlMs"]] if "ttlMs" in page else []
        size += len(json.dumps(page, ensure_ascii=False))
        if len(result.items) > (most := settings.upstream_max_tools):
            raise UpstreamRefused(f"{method}: more than {most:,} {name} (WAYGRAPH_UPSTREAM_MAX_TOOLS)")
        if size > MAX_LISTING_BYTES:
            raise UpstreamRefused(f"{method}: more than {MAX_LISTING_BYTES:,} bytes")
        if not (cursor := _next(method, page.get("nextCursor"))):
            return result
        if cursor in cursors:
            raise UpstreamRefused(f"{method}: a cursor comes again, so that the list has no end")
        cursors.add(cursor)
    raise UpstreamRefused(f"{method}: more than {MAX_PAGES:,} pages")


async def number_of(session: ClientSession, explain: Explain, method: str, settings: Settings) -> int:
    """How many there are, 0 where the server does not say: a count is no reason to lose the tools.

    Raises UpstreamUnreachable.
    """
    try:
        return len((await all_of(session, explain, method, settings)).items)
    except UpstreamRefused:
        return 0


def _next(method: str, cursor: object) -> str:
    if cursor is None:
        return ""
    if not isinstance(cursor, str):
        raise UpstreamRefused(f"{method}: its cursor is no string")
    return cursor


MOST_ROUNDS = 10
"""How often a server of the modern era may ask on before it answers."""


_LEVEL_S = 1.0
"""For a server of the handshake era to take a level: a call waits no longer."""
_CANCEL_S = 5.0
_HEADER_MARK = "x-mcp-header"
TASKS, TASK = "io.modelcontextprotocol/tasks", "task"
"""The extension (SEP-2663), and the `resultType` of an answer that is to be fetched later."""
TASK_METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_TARGETS = {CALL: Name.TOOL, "prompts/get": Name.PROMPT}
_CAPABILITIES: dict[Question, tuple[str, dict[str, Any]]] = {
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
    "sampling/createMessage": ("sampling", {}),
    "roots/list": ("roots", {}),
}


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Of one connection, which has agreed on `version`."""

    session: ClientSession
    version: str
    underway: CallsUnderway
    network: str = ""
    runs_tasks: bool = False
    sets_level: bool = False
    """Whether the server lets its client say, for the whole connection, how loud it is."""

    async def call(
        self, call: Underway, method: str, name: str, arguments: Mapping[str, Any], input_schema: str
    ) -> Result:
        """Raises MCPError, and UpstreamRefused for a question that nobody answers."""
        params = {"name": name, "arguments": dict(arguments)} if method == CALL else dict(arguments)
        headers = _param_headers(input_schema, arguments) if self._is_modern and _HEADER_MARK in input_schema else {}
        # As loud as the loudest host of a call under way wants it; each hears of it what it asked for.
        level = self.underway.loudest() if self.sets_level and not self._is_modern else ""
        if level and level != self.underway.level:
            self.underway.level = level
            with anyio.move_on_after(_LEVEL_S), suppress(MCPError):  # a server that will not be told goes on as it was
                await raw_request(self.session, "logging/setLevel", {"level": level}, cancels=False)
        if method in TASK_METHODS:
            headers = {MCP_NAME_HEADER: encode_header_value(str(params["taskId"]))}
        older = self._call_task if self.runs_tasks and not self._is_modern else self._request
        result = await older(call, method, params, headers)
        pause_s = _FIRST_PAUSE_S
        for _ in range(MOST_ROUNDS):
            if not self._is_modern or result.get("resultType") != "input_required":
                await call.await_notices()
                return call.discretion.redact_result(sendable(result))
            call.has_begun = True
            if not isinstance(questions := result.get("inputRequests") or {}, Mapping):
                raise UpstreamRefused("its questions are not of the protocol")
            # One after the other: a person reads one at a time.
            if not (
                answers := {key: await answer_question(call.host, question) for key, question in questions.items()}
            ):
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            more: dict[str, Any] = {"inputResponses": answers} if answers else {}
            if (state := result.get("requestState")) is not None:  # goes back byte for byte
                more["requestState"] = state
            result = await self._request(call, method, {**params, **more}, headers)
        raise UpstreamRefused(f"wants to know still more after {MOST_ROUNDS} rounds of questions")

    async def _call_task(
        self, call: Underway, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Result:
        """As the revision of 2025-11-25 has tasks, told in the words of the extension."""
        try:
            answer = await self._request(call, method, params, headers)
        except MCPError as error:
            if method != CALL or error.code != types.METHOD_NOT_FOUND:
                raise
            answer = await self._request(call, method, {**params, TASK: {}}, headers)  # it runs as a task alone
            return {**_task_fields(fields_of(answer.get(TASK))), "resultType": TASK}
        answer = _task_fields(answer) if method == "tasks/get" else answer
        # A server asks its questions while the result is waited for.
        if method != "tasks/get" or answer.get("status") not in ("completed", "failed", "input_required"):
            return answer
        result = await self._request(call, "tasks/result", params, headers)
        return {**answer, "status": "completed", "result": result}

    async def _request(
        self, call: Underway, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Result:
        call.request_id = None
        meta: dict[str, Any] = {"progressToken": call.token}
        capabilities: dict[str, Any] | None = None
        if self._is_modern:  # what this host takes, it reads from each request
            meta[types.LOG_LEVEL_META_KEY] = call.host.log_level or LOG_LEVEL
            capabilities = dict(each for question, each in _CAPABILITIES.items() if call.host.can(question))
            if method == CALL or method in TASK_METHODS:
                capabilities["extensions"] = {TASKS: {}}
        with mcp_operation("client", method, version=self.version, transport=self.network) as operation:
            if name := _TARGETS.get(method):
                operation.attributes[name] = params["name"]
            try:
                answer = await raw_request(
                    self.session,
                    method,
                    {**params, "_meta": meta},
                    headers=headers,
                    capabilities=capabilities,
                    cancels=False,
                )
            except anyio.get_cancelled_exc_class():
                self._leave(call)
                raise
            finally:
                operation.attributes[Name.REQUEST_ID] = str(call.request_id)
            operation.note_answer(answer)
            return answer

    def _leave(self, call: Underway) -> None:
        if call.request_id is not None:
            self.underway.leave(call)
            call.tasks.start_soon(self._cancel, call.request_id)  # in its own time: ours is up

    async def _cancel(self, request_id: int | str) -> None:
        with anyio.move_on_after(_CANCEL_S):
            await raw_cancel(self.session, request_id, "nobody waits for the answer any more")

    @property
    def _is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS


def _task_fields(task: Mapping[str, Any]) -> dict[str, Any]:
    return {**task, "ttlMs": task.get("ttl"), "pollIntervalMs": task.get("pollInterval")}


async def answer_question(host: Host, question: object) -> Mapping[str, Any]:
    """The answer of a host to what a server wants to know. Raises UpstreamRefused."""
    method = QUESTIONS.get(str(question.get("method"))) if isinstance(question, Mapping) else None
    if not isinstance(question, Mapping) or method is None:
        raise UpstreamRefused("asks what is no question of the protocol")
    if not host.can(method):
        raise UpstreamRefused(f"needs an answer to {method}, which the host of this call does not take")
    try:
        return await host.ask(method, sendable(question.get("params") or {}))
    except NotAnswered as exc:
        raise UpstreamRefused(f"needs an answer to {method}, and got none: {exc}") from None


def _param_headers(input_schema: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments that a server of the modern era wants to see in headers, as its schema says."""
    try:
        if find_invalid_x_mcp_header(schema := json.loads(input_schema)) is None:
            return mcp_param_headers(x_mcp_header_map(schema), arguments)
    except (ValueError, RecursionError):
        pass
    return {}


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25
"""Before a server that only wants to be asked again is."""


QUESTIONS: Mapping[str, Question] = {name: name for name in get_args(Question)}
_OF_A_CALL: frozenset[str] = frozenset({"elicitation/create", "sampling/createMessage"})
"""Roots are of the whole connection in this era, and no single host's to tell."""
_Answer = types.JSONRPCResponse | types.JSONRPCError
NOBODY = "no call is under way, so that nobody can be asked"
_log = logging.getLogger(__name__)


class Questions:
    """Of one connection. `writing` is where answers go."""

    def __init__(self, wire: Wire, calls: CallsUnderway) -> None:
        self.writing: Any = None
        self._wire, self._calls = wire, calls
        self._open: dict[types.RequestId, anyio.CancelScope] = {}

    def take(self, request: types.JSONRPCRequest, context: Context | None) -> bool:
        """Whether it is a question for a host; then it is answered in a task of its own."""
        if request.method not in _OF_A_CALL or self._calls.tasks is None:
            return False
        # Here, not in the task: it may be withdrawn before that has begun.
        scope = self._open[request.id] = anyio.CancelScope()
        call = self._calls.call_for(context)
        in_context = (call.context if call else copy_context()).run
        in_context(self._calls.tasks.start_soon, self._reply, request, call, scope)
        return True

    def withdraw(self, request_id: types.RequestId) -> None:
        """The server does not want to know any more."""
        if (scope := self._open.pop(request_id, None)) is not None:
            scope.cancel()

    async def _reply(self, request: types.JSONRPCRequest, call: Underway | None, scope: anyio.CancelScope) -> None:
        answer: _Answer = _refusal(request.id, "the call that this belongs to has ended")
        with scope:
            answer = await self._answer(request, call, scope)
        if call is not None:
            call.scopes.discard(scope)
        if self._open.pop(request.id, None) is not scope:  # withdrawn: it gets no answer
            self._wire.open_questions -= 1
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.writing.send(SessionMessage(answer))

    async def _answer(self, request: types.JSONRPCRequest, call: Underway | None, scope: anyio.CancelScope) -> _Answer:
        if call is None or call.is_over:
            several = "calls of several hosts are under way, or just were, and this does not say to which it belongs"
            return _refusal(request.id, several if len(self._calls) else NOBODY)
        question = QUESTIONS[request.method]
        if not call.host.can(question):
            return _refusal(request.id, f"the host of this call does not take {question}")
        call.scopes.add(scope)
        try:
            result = await call.host.ask(question, sendable(request.params or {}))
        except NotAnswered as exc:
            return _refusal(request.id, str(exc))
        except Exception as exc:  # noqa: BLE001 - a fault of one host must not end the connection of all
            _log.warning("a host failed at a question of a server (%s)", type(exc).__name__)
            return _refusal(request.id, "the host failed to answer", types.INTERNAL_ERROR)
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(result))


def _refusal(request_id: types.RequestId, reason: str, code: int = types.INVALID_REQUEST) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=reason))


_STANDS_S = 3.0
"""For the way of notifications to stand, before anything is listed. Later is not too late, but may miss a change."""
_FIRST_SUBSCRIPTION_PAUSE_S, _LONG_LIFE_S, _MISSES = 1.0, 30.0, 3


class Following:
    """Many notifications are one flag: it is set on the wire, and costs no task and no parsing."""

    def __init__(self, wire: Wire, *, wants_changes: bool) -> None:
        self._wire, self._wants_changes = wire, wants_changes
        self._told = False
        self.changes = 0
        """How often the server told of a change."""
        self._loss: UpstreamError | None = None
        self._news = anyio.Event()
        self._settled = anyio.Event()
        self._notifies = False
        wire.on_change = self._note
        wire.on_silence = self._silent

    async def await_change(self) -> None:
        """Raises UpstreamError when no more can be told."""
        while not self._told:
            if self._loss is not None:
                raise self._loss.again()
            await self._news.wait()

    def begin(self) -> None:
        """A listing begins: what was told before is answered by it."""
        if self._told:
            self._told = False
            self._news = anyio.Event()
            if self._loss is not None:
                self._news.set()

    def lose(self, loss: UpstreamError) -> None:
        self._loss = self._loss or loss
        self._settled.set()
        self._news.set()

    async def stands(self) -> bool:
        """Whether the server tells of changes, and we hear it."""
        with anyio.move_on_after(_STANDS_S):
            await self._settled.wait()
        self._settled.set()  # the next listing does not wait again
        return self._notifies

    async def follow(self, client: Client) -> None:
        """Keeps the way open for as long as the connection runs. Never raises."""
        if not self._wants_changes or not _notifies(client.server_capabilities):
            self._settle(False)
        elif client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._subscribe(client)
        else:
            await self._wire.push_decision.wait()
            self._settle(self._wire.pushes)

    async def _subscribe(self, client: Client) -> None:
        """A subscription that ends is opened again; what was told between is taken for told."""
        misses, has_stood = 0, False
        while misses < _MISSES:
            began = anyio.current_time()
            try:
                async with client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as subscription:
                    if has_stood:
                        self._note()
                    has_stood = True
                    self._settle(bool(subscription.honored.tools_list_changed))
                    if not self._notifies:
                        return
                    async for _ in subscription:
                        pass  # events are seen on the wire; this ends with the subscription
            except (MCPError, SubscriptionLost, TimeoutError):
                if not has_stood:
                    self._settle(False)
                    return
            misses = 0 if anyio.current_time() - began > _LONG_LIFE_S else misses + 1
            await anyio.sleep(_FIRST_SUBSCRIPTION_PAUSE_S * 2**misses)
        self._silent()

    def _note(self) -> None:
        self.changes += 1
        self._told = True
        self._news.set()

    def _settle(self, notifies: bool) -> None:
        self._notifies = notifies
        self._settled.set()

    def _silent(self) -> None:
        self._notifies = False
        self.lose(UpstreamUnreachable("the stream by which it told of changes is lost"))


def _notifies(capabilities: types.ServerCapabilities) -> bool:
    return any(
        part is not None and part.list_changed
        for part in (capabilities.tools, capabilities.prompts, capabilities.resources)
    )
