"""Opening a connection to an MCP server, of either protocol era, over any transport.

The SDK's client runs in a task of its own: what breaks it ends the connection and reaches those who use it as an
UpstreamError, and never as a cancellation or a group of errors.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.manifest.redaction import discretion
from waygraph.ingest.upstream.connection import CallConnection
from waygraph.ingest.upstream.process_health import MOST_TIMES
from waygraph.ingest.upstream.session import Mode, OpenConnection
from waygraph.ingest.upstream.stdio import stdio_transport
from waygraph.ingest.upstream.wire import Wire, hush
from waygraph.registry.model.errors import UpstreamError, UpstreamUnreachable
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.logins.oauth import OpenPage


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
            timeout_s += self._settings.upstream_login_timeout_s  # a person may be asked
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
        from waygraph.ingest.upstream.http import speaks_older_form

        if launch.form == "http" and speaks_older_form(attempt.wire.refusal_status):
            return replace(launch, form="sse"), "legacy"
        return None

    async def _try(self, launch: Launch, mode: Mode) -> OpenConnection:
        await self.close()
        wire = Wire(on_life=self._prolong)
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
