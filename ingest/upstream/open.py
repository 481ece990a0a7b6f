"""A connection to an MCP server, of either protocol era, over any transport: opened, asked, closed.

The SDK's client runs in a task of its own: what breaks it ends the connection and reaches those who use it as an
UpstreamError, and never as a cancellation or a group of errors.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp import Client, MCPError, types
from mcp.client.session import ClientSession
from pydantic import ValidationError

from waygraph.ingest.manifest.records import LOGIN_TIMEOUT_S, HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.manifest.redaction import Discretion, discretion
from waygraph.ingest.upstream.calls import NOBODY, Following, Items, Questions, ToolCalls, all_of, number_of
from waygraph.ingest.upstream.connection import (
    CALL,
    LISTS,
    SKILLS,
    CallConnection,
    Host,
    MayHaveRun,
    NotDelivered,
    NotOffered,
    Result,
    ServerListing,
)
from waygraph.ingest.upstream.inflight import CallsUnderway, Underway
from waygraph.ingest.upstream.messages import fault_of
from waygraph.ingest.upstream.process_health import MOST_TIMES
from waygraph.ingest.upstream.stdio import stdio_transport
from waygraph.ingest.upstream.wire import UNREAD, CountedStream, WatchedStream, Wire, error_ends_session, hush, quietly
from waygraph.registry.model.errors import (
    UpstreamAnswered,
    UpstreamBusy,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnreachable,
)
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.logins.oauth import OpenPage


Mode = Literal["auto", "legacy"]

_LEAVE_S = 0.5
"""For an orderly end; then the transport ends without ceremony."""
_END_S = 2.0
"""For the end of a connection, which tells why it ended."""
_CUT = ("Connection closed", "SSE stream ")
"""How the SDK begins its own errors of a connection that ended."""
_COUNT_S = 5.0
"""For each count of prompts and resources, which are worth no longer wait."""
LIST_KEPT_S, LIST_FRESH_S = 300.0, 5.0
"""A list of prompts or resources is kept for at most so long, and for at least so long whatever its server says: a host
that reads it page by page reads one list."""


@dataclass(slots=True)
class _KeptList:
    """What a server listed last, until when it holds, and how often the server had told of a change before it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    items: Sequence[Any] = ()
    until_s: float = 0.0
    changes: int = 0

    def holds(self, changes: int) -> bool:
        return changes == self.changes and anyio.current_time() < self.until_s


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """What both sides agreed on at the start; it holds when the connection is gone, too."""

    session: ClientSession
    server: types.Implementation
    instructions: str
    version: str
    capabilities: types.ServerCapabilities


class OpenConnection:
    """The `Connection` that the SDK's client gives. `run` is its task; `close` ends it."""

    def __init__(
        self,
        transport: AbstractAsyncContextManager[Any],
        wire: Wire,
        settings: Settings,
        discretion: Discretion,
        *,
        mode: Mode,
        follow: bool,
    ) -> None:
        self.wire = wire
        self.ended_by_itself = False
        self._transport, self._settings, self._discretion = transport, settings, discretion
        self._mode: Mode = mode
        self._following = Following(wire, wants_changes=follow)
        self._terms: SessionTerms | None = None
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._opened = anyio.Event()
        self._ended = anyio.Event()
        self._loss: UpstreamError | None = None
        self._calls = CallsUnderway(discretion)
        self._questions = Questions(wire, self._calls)
        self._lists = {method: _KeptList() for method in LISTS}
        wire.on_end = self._end
        wire.on_notice, wire.on_sending = self._calls.notice, self._calls.sending
        wire.on_undelivered = self._calls.note_undelivered
        wire.on_question, wire.on_withdrawal = self._questions.take, self._questions.withdraw

    # -- its task ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Opens, serves and closes. Never raises: why it ended is told by `opened` and by each method."""
        try:
            with self._scope, quietly():
                await self._serve()
        except Exception as exc:  # noqa: BLE001 - groups of whatever the SDK and the transport raised
            self._loss = self._reason(exc)
        finally:
            self._loss = self._loss or self.wire.trouble or UpstreamUnreachable("the connection is closed")
            self._opened.set()
            self._ended.set()
            self._following.lose(self._loss)

    async def _serve(self) -> None:
        # By its callbacks the SDK says what we take, and refuses what comes before any call can. That is said also
        # where no call is meant: some servers list a tool only to who takes what it would ask. Roots are not among it.
        # In the handshake era they are of the whole connection: those of one host would open its folders to all others,
        # and move the limits that an operator has set. In the modern era each call names its own.
        client = Client(
            self._watched_streams(),
            mode=self._mode,
            client_info=types.Implementation(name="waygraph", version=_version()),
            cache=None,
            elicitation_callback=_nobody,
            sampling_callback=_nobody,
        )
        async with client:
            self._terms = SessionTerms(
                client.session,
                client.server_info or types.Implementation(name="", version=""),
                client.instructions or "",
                client.protocol_version,
                client.server_capabilities,
            )
            async with anyio.create_task_group() as tasks:
                self._calls.tasks = tasks
                self._opened.set()
                tasks.start_soon(self._following.follow, client)
                await self._over.wait()
                self._calls.tasks = None
                tasks.cancel_scope.cancel()

    def _end(self) -> None:
        """The server closed its side."""
        self.ended_by_itself = not self._over.is_set()
        self._over.set()

    @asynccontextmanager
    async def _watched_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._transport as (reading, writing):
            self._questions.writing = CountedStream(writing, self.wire)
            yield WatchedStream(reading, self.wire), self._questions.writing

    # -- its owner ---------------------------------------------------------------------------------

    async def await_open(self) -> None:
        """Returns when both sides have agreed. Raises UpstreamError."""
        await self._opened.wait()
        if self._terms is None:
            raise await self._loss_error()

    async def close(self) -> None:
        """Shielded, and bounded by what the transport takes for its own end."""
        with anyio.CancelScope(shield=True):
            self._over.set()
            with anyio.move_on_after(_LEAVE_S if self._terms else 0):
                await self._ended.wait()
            self._scope.cancel()
            await self._ended.wait()

    def not_within(self, timeout_s: float, setting: str) -> UpstreamUnreachable:
        """What is known of a server that has not answered in time."""
        hints = []
        if self.wire.skipped_lines:
            hints.append(f"wrote {self.wire.skipped_lines} lines to standard output that are no JSON-RPC")
        if words := self.wire.last_words():
            hints.append(f"last said: {words}")
        trouble = self.wire.trouble.reason if self.wire.trouble else "did not answer"
        text = f"{trouble} within {timeout_s:.3g} s (WAYGRAPH_{setting.upper()})"
        if hints:
            text = f"{text}; it {' and '.join(hints)}"
        if self.wire.launcher and not self.wire.message_count:
            text = f"{text}; {self.wire.launcher} may still have been fetching what it starts: run it again"
        return UpstreamUnreachable(text)

    # -- what it is asked --------------------------------------------------------------------------

    async def listing(self) -> ServerListing:
        timeout_s = self._settings.upstream_list_timeout_s
        if not self._over.is_set():
            self.wire.trouble = None  # of an earlier request
        with quietly(), anyio.move_on_after(timeout_s):
            return await self._listing()
        raise self.not_within(timeout_s, "upstream_list_timeout_s")

    async def await_change(self) -> None:
        await self._following.await_change()

    # -- calls -------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._terms is not None and not self._over.is_set() and not self._ended.is_set()

    @property
    def message_count(self) -> int:
        return self.wire.message_count

    @property
    def change_count(self) -> int:
        return self._following.changes

    async def await_end(self) -> None:
        await self._over.wait()

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, host: Host, input_schema: str = "", method: str = CALL
    ) -> Result:
        if self._terms is None or self._calls.tasks is None or not self.is_open:
            raise NotDelivered((await self._loss_error()).reason)
        if method in LISTS:
            with quietly():
                return self._discretion.redact_result({LISTS[method]: await self._list(method)})
        if _capability_of(method, self._terms.capabilities) is None:
            raise NotOffered(f"says that it does not know {method}")
        calls = ToolCalls(
            self._terms.session,
            self._terms.version,
            self._calls,
            network=self.wire.network,
            runs_tasks=self._terms.capabilities.tasks is not None,
            sets_level=self._terms.capabilities.logging is not None,
        )
        with self._calls.begin(host, self._calls.tasks) as call, quietly():
            try:
                result = await calls.call(call, method, name, arguments, input_schema)
                return self.wire.box.advise(result) if self.wire.box else result
            except MCPError as exc:
                error = await self._call_error(call, exc, {"name": name, "arguments": dict(arguments)})
            raise error

    async def _call_error(self, call: Underway, exc: MCPError, params: Mapping[str, Any]) -> UpstreamError:
        """Why a call has no result."""
        if (loss := self._of_ours(exc)) is None and (loss := self._session_end(exc, params)) is not None:
            call.is_delivered = False
        loss = await self._end_error(exc) or loss
        if loss is None:
            most = self._settings.most_error_chars
            data = self._discretion.redact_data(exc.error.data, most)
            return UpstreamAnswered(exc.code, self._discretion.excerpt(exc.error.message, most), data)
        if not call.may_have_run:
            return NotDelivered(loss.reason)
        return MayHaveRun(loss.reason) if loss.retryable and not isinstance(loss, UpstreamBusy) else loss

    async def _list(self, method: str) -> Sequence[Any]:
        """Whole, of a server that says it has such; else nothing. Raises UpstreamError."""
        terms, cache = await self._running(), self._lists[method]
        if _capability_of(method, terms.capabilities) is None:
            return ()
        async with cache.lock:
            if not cache.holds(self.change_count):
                changes = self.change_count
                items = await all_of(terms.session, self._explain, method, self._settings)
                lasts_s = LIST_KEPT_S if items.lasts_s is None else min(items.lasts_s, LIST_KEPT_S)
                cache.items, cache.changes = items.items, changes
                cache.until_s = anyio.current_time() + max(lasts_s, LIST_FRESH_S)
            return cache.items

    async def _listing(self) -> ServerListing:
        terms = await self._running()
        notifies = await self._following.stands()
        self._following.begin()
        tools = await self._tools(terms)
        prompts, resources, templates = [await self._number(method) for method in LISTS]
        skills, skills_fault = await self._skills(terms)
        return ServerListing(
            skills=tuple(skills),
            skills_fault=skills_fault,
            name=terms.server.name,
            title=terms.server.title or "",
            version=terms.server.version,
            instructions=terms.instructions,
            protocol=terms.version,
            tools=tuple(tools.items),
            prompts=prompts,
            resources=resources,
            resource_templates=templates,
            lasts_s=tools.lasts_s,
            notifies=notifies,
        )

    async def _tools(self, terms: SessionTerms) -> Items:
        """Also of a server that does not say that it has any: some forget to."""
        try:
            return await all_of(terms.session, self._explain, "tools/list", self._settings)
        except NotOffered:
            if terms.capabilities.tools is None:
                return Items()
            raise

    async def _skills(self, terms: SessionTerms) -> tuple[Sequence[Any], str]:
        """And why there are none: a fault in them is no reason to lose the tools."""
        if SKILLS not in (terms.capabilities.extensions or {}):
            return (), ""
        try:
            return (await all_of(terms.session, self._explain, "skills/list", self._settings)).items, ""
        except UpstreamRefused as refusal:
            return (), refusal.reason

    async def _number(self, method: str) -> int:
        terms = await self._running()
        if _capability_of(method, terms.capabilities) is None:
            return 0
        with anyio.move_on_after(_COUNT_S):
            return await number_of(terms.session, self._explain, method, self._settings)
        return 0

    async def _running(self) -> SessionTerms:
        """Raises UpstreamError for one that has ended."""
        if self._terms is None or self._over.is_set() or self._ended.is_set():
            raise await self._loss_error()
        return self._terms

    async def _explain(self, exc: MCPError, params: Mapping[str, Any]) -> UpstreamError:
        """Why a request has no result."""
        return await self._end_error(exc) or self._session_end(exc, params) or self._answer_error(exc)

    async def _end_error(self, exc: MCPError) -> UpstreamError | None:
        """Why the connection ended, where it did. A request may be told so before the end is known."""
        if self.is_open and exc.error.message == _CUT[0]:
            with anyio.move_on_after(_END_S):  # a server may say that word, too, and stay
                await self._ended.wait()
        return None if self.is_open else await self._loss_error()

    def _session_end(self, exc: MCPError, params: Mapping[str, Any]) -> UpstreamError | None:
        """That an error of the server's means that it no longer knows the session, which ends the connection."""
        if self._of_ours(exc) or not error_ends_session(exc.error, params, self.wire.session_id):
            return None
        return NotDelivered(f"its session has ended: {self._discretion.line(exc.error.message)}")

    async def _loss_error(self) -> UpstreamError:
        await self._ended.wait()
        return (self._loss or UpstreamUnreachable("the connection is closed")).again()

    def _reason(self, exc: BaseException) -> UpstreamError:
        """What broke the client, in words. Looks through groups, for what stands at the bottom."""
        while isinstance(exc, BaseExceptionGroup):
            exc = exc.exceptions[0]
        if isinstance(exc, UpstreamError):
            return exc
        if isinstance(exc, MCPError):
            return self._answer_error(exc)
        if isinstance(exc, ValidationError):
            where = ".".join(str(part) for part in exc.errors(include_url=False, include_input=False)[0]["loc"])
            return UpstreamRefused(
                f"its answer is not of the protocol (at {self._discretion.line(where) or 'its top'})"
            )
        if isinstance(exc, httpx2.SSEError):
            return self.wire.trouble or UpstreamRefused("sent an event of a stream that cannot be read, or is too long")
        if isinstance(exc, RuntimeError):  # the SDK's word for versions that do not meet
            return UpstreamRefused(self._discretion.line(str(exc)))
        return self.wire.trouble or UpstreamUnreachable(f"the connection broke ({type(exc).__name__})")

    def _answer_error(self, exc: MCPError) -> UpstreamError:
        """An error answer: the server's, the SDK's, or one that our HTTP client put in place of none."""
        if (loss := self._of_ours(exc)) is not None:
            return loss
        if exc.code == types.METHOD_NOT_FOUND:
            return NotOffered("does not know what it was asked")
        return UpstreamRefused(f"answered with error {exc.code}: {self._discretion.line(exc.error.message)}")

    def _of_ours(self, exc: MCPError) -> UpstreamError | None:
        """What the SDK or our HTTP client says in place of an answer; None for an answer of the server's."""
        if fault := self.wire.fault_in(exc.error):
            return fault.again()
        # Servers use these codes too.
        cut = exc.code == types.CONNECTION_CLOSED and exc.error.message.startswith(_CUT)
        unread = exc.code == types.PARSE_ERROR and exc.error.message.startswith(UNREAD)
        if cut:
            return self.wire.trouble or UpstreamUnreachable("the connection was closed before the answer")
        return UpstreamRefused(self._discretion.line(fault_of(exc.error.message))) if unread else None


def _capability_of(method: str, capabilities: types.ServerCapabilities) -> object:
    """What the server says of this method's subject; None: that it has none."""
    kinds = {
        "prompts": capabilities.prompts,
        "resources": capabilities.resources,
        "completion": capabilities.completions,
    }
    return kinds.get(method.partition("/")[0], capabilities)


async def _nobody(*_: Any, **__: Any) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=NOBODY)


@cache
def _version() -> str:
    return version("waygraph")


@asynccontextmanager
async def connect(
    launch: Launch, settings: Settings, *, follow: bool = True, open_page: "OpenPage | None" = None
) -> AsyncGenerator[CallConnection]:
    """An open connection, within `upstream_connect_timeout_s`; within MOST_TIMES as long while a program that fetches
    the server shows signs of life. It is closed within 2 s, a child process ended; within 10 s more where its login by
    OAuth is being renewed.

    `follow`: whether the server is asked to tell of changes; without it `changed` never returns. `open_page`:
    shows a person the page where they log in by OAuth; without it only tokens that are held count. Raises
    UpstreamError.
    """
    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        opening = _Opening(launch, settings, follow=follow, open_page=open_page, tasks=tasks)
        try:
            yield await opening.open()
        except Exception as exc:  # noqa: BLE001 - handed on as it is: the task group would wrap it
            error = exc
        finally:
            await opening.close()
    if error is not None:
        raise error


class _Opening:
    """The attempts to open one connection: the last one is the connection."""

    def __init__(
        self, launch: Launch, settings: Settings, *, follow: bool, open_page: "OpenPage | None", tasks: TaskGroup
    ) -> None:
        hush()
        self._launch, self._settings, self._follow, self._open_page = launch, settings, follow, open_page
        self._tasks = tasks
        self._discretion = discretion(launch)
        self._attempt: OpenConnection | None = None
        self._prolong: Callable[[], None] = lambda: None
        self._first: UpstreamError | None = None
        """Why an attempt failed that is followed by one in another way."""

    async def open(self) -> CallConnection:
        timeout_s = self._settings.upstream_connect_timeout_s
        if self._open_page and isinstance(self._launch, HttpLaunch) and self._launch.oauth:
            timeout_s += LOGIN_TIMEOUT_S  # a person may be asked
        began_s = anyio.current_time()
        with anyio.move_on_after(timeout_s) as scope:
            self._prolong = partial(_prolong, scope, timeout_s, began_s + MOST_TIMES * timeout_s)
            return await self._try_all()
        if self._attempt is None:
            raise UpstreamUnreachable(f"could not be tried within {timeout_s:g} s")
        spent_s = max(timeout_s, round(anyio.current_time() - began_s))
        raise self._with_first(self._attempt.not_within(spent_s, "upstream_connect_timeout_s"))

    async def _try_all(self) -> OpenConnection:
        try:
            return await self._try(self._launch, "legacy" if self._launch.handshake else "auto")
        except UpstreamError as error:
            if (again := self._another_way()) is None:
                raise
            self._first = error
        try:
            return await self._try(*again)
        except UpstreamError as error:
            raise self._with_first(error) from None

    def _with_first(self, error: UpstreamError) -> UpstreamError:
        """What an attempt in another way came to hides no reason of the first: at an address the first is the one."""
        if (first := self._first) is None or first.reason == error.reason:
            return error
        if isinstance(self._launch, HttpLaunch):
            return first
        return error.again(f"{error.reason}; at the first attempt it {first.reason}")

    def _another_way(self) -> tuple[Launch, Mode] | None:
        """Some servers of old end when the first message is not `initialize`; others speak the older HTTP form."""
        attempt, launch = self._attempt, self._launch
        if attempt is None:
            return None
        if isinstance(launch, StdioLaunch):
            return (launch, "legacy") if attempt.ended_by_itself and not attempt.wire.message_count else None
        from waygraph.ingest.upstream.http import OLDER

        if launch.form == "http" and attempt.wire.refusal_status in OLDER:
            return replace(launch, form="sse"), "legacy"
        return None

    async def _try(self, launch: Launch, mode: Mode) -> OpenConnection:
        await self.close()
        wire = Wire(on_life=self._prolong, network="pipe" if isinstance(launch, StdioLaunch) else "tcp")
        self._attempt = OpenConnection(
            self._transport(launch, wire), wire, self._settings, self._discretion, mode=mode, follow=self._follow
        )
        self._tasks.start_soon(self._attempt.run)
        await self._attempt.await_open()
        return self._attempt

    def _transport(self, launch: Launch, wire: Wire) -> AbstractAsyncContextManager[object]:
        if isinstance(launch, StdioLaunch):
            return stdio_transport(launch, self._settings, wire, self._discretion)
        from waygraph.ingest.upstream.http import http_transport  # brings an HTTP client and OAuth

        return http_transport(launch, self._settings, wire, self._discretion, self._open_page)

    async def close(self) -> None:
        if self._attempt is not None:
            await self._attempt.close()


def _prolong(scope: anyio.CancelScope, timeout_s: float, latest_s: float) -> None:
    """From now on it has its whole time, up to a moment."""
    scope.deadline = min(latest_s, anyio.current_time() + timeout_s)
