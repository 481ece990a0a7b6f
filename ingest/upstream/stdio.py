"""An MCP server as a child process: one line, one message. After the SDK's `stdio_client`, for servers not trusted.

The child has a session and process group of its own, which are ended whole; its error output is kept apart, its
standard output may hold what is no message, and a line without end is not gathered.
"""

import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from waygraph.ingest.transport import references_only
from waygraph.ingest.upstream.launch import StdioLaunch
from waygraph.ingest.upstream.reaper import REAPER
from waygraph.ingest.upstream.telling import Discretion
from waygraph.ingest.upstream.wire import Wire
from waygraph.registry.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.settings import Settings

FLUSH_S, LEAVE_S, TERM_S, KILL_S = 0.2, 0.4, 0.5, 0.3
"""How long its last message, its own end, SIGTERM and SIGKILL may take: together less than 2 s."""
_POLL_S = 0.01
_CHUNK = 64 * 1024
_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)

_Incoming = SessionMessage | Exception


@dataclass(slots=True)
class Ring:
    """The last so many bytes of an endless output."""

    most_bytes: int
    _kept: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > self.most_bytes:
            del self._kept[: len(self._kept) - self.most_bytes]

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


class TooLong(Exception):
    """So many bytes and no message among them."""


@dataclass(slots=True)
class _Lines:
    """Bytes to lines. Holds no more than the longest line allowed."""

    most_bytes: int
    _rest: bytearray = field(default_factory=bytearray)

    def fed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. Raises TooLong."""
        head, newline, tail = chunk.rpartition(b"\n")
        if len(self._rest) + len(head if newline else chunk) > self.most_bytes + _CHUNK:
            raise TooLong
        if not newline:
            self._rest += chunk
            return []
        whole, self._rest = bytes(self._rest) + head, bytearray(tail)
        return whole.split(b"\n")


@asynccontextmanager
async def stdio_transport(
    launch: StdioLaunch, settings: Settings, wire: Wire, discretion: Discretion
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Starts the server; leaving ends it, with all of its process group. Raises UpstreamError."""
    process = await _started(launch, discretion)
    server = _Server(process, settings, wire, discretion)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.read)
        tasks.start_soon(server.write)
        tasks.start_soon(server.listen_to_errors)
        try:
            yield server.read_stream, server.write_stream
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()
            tasks.cancel_scope.cancel()


async def _started(launch: StdioLaunch, discretion: Discretion) -> Process:
    environment = get_default_environment() | dict(launch.env)
    name = discretion.line(str(references_only({"command": launch.command})["command"]))
    if launch.cwd and not Path(launch.cwd).is_dir():
        raise UpstreamUnreachable(f"its working directory is no folder: {discretion.line(launch.cwd)}")
    try:
        process = await anyio.open_process(
            [launch.command, *launch.args], env=environment, cwd=launch.cwd or None, start_new_session=True
        )
    except FileNotFoundError:
        where = "there is no such file" if os.sep in launch.command else "nothing of that name is on PATH"
        if which(launch.command, path=environment.get("PATH")):
            where = "what its first line asks to run it with is not there"
        raise UpstreamUnreachable(f"command not found: {name} ({where})") from None
    except PermissionError:
        raise UpstreamUnreachable(f"command cannot be run: {name} (permission denied)") from None
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "an argument or variable is malformed"
        raise UpstreamUnreachable(f"command cannot be run: {name} ({reason})") from None
    REAPER.watch_over(process.pid)
    return process


class _Server:
    """A child process and the streams between it and the SDK."""

    def __init__(self, process: Process, settings: Settings, wire: Wire, discretion: Discretion) -> None:
        self._process = process
        self._stdin = cast(ByteSendStream, process.stdin)  # all three are pipes
        self._stdout = cast(ByteReceiveStream, process.stdout)
        self._stderr = cast(ByteReceiveStream, process.stderr)
        self._settings = settings
        self._wire = wire
        self._discretion = discretion
        self._errors = Ring(settings.upstream_stderr_bytes)
        self._written = anyio.Event()
        self._stopping = self._fell_silent = False
        self._incoming, self.read_stream = anyio.create_memory_object_stream[_Incoming](0)
        self.write_stream, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        wire.last_words = self.last_words
        wire.settled.set()

    @property
    def stderr_tail(self) -> str:
        """The end of its error output, unchecked."""
        return self._errors.text()

    def last_words(self) -> str:
        return self._discretion.last_words(self.stderr_tail)

    # -- streams -----------------------------------------------------------------------------------

    async def read(self) -> None:
        """Its standard output to messages, until it ends."""
        with suppress(TooLong):
            async with self._incoming:
                await self._read_lines()
                self._fell_silent = not self._stopping
        with suppress(*_GONE):  # one that is still writing would never come to read the end of its input
            while True:
                await self._stdout.receive(_CHUNK)

    async def _read_lines(self) -> None:
        most = self._settings.upstream_max_message_bytes
        lines, idle = _Lines(most), 0
        with suppress(*_GONE):
            while True:
                try:
                    chunk = await self._stdout.receive(_CHUNK)
                    complete = lines.fed(chunk)
                    idle += len(chunk)
                    for line in complete:
                        message = message_of(line)
                        if message is None:
                            self._wire.skipped += bool(line.strip())
                            continue
                        idle = 0
                        await self._incoming.send(SessionMessage(message))
                    if idle > most + _CHUNK:
                        raise TooLong
                except TooLong:
                    self._wire.trouble = UpstreamRefused(
                        f"wrote more than {most:,} bytes without a message that can be read "
                        "(WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)"
                    )
                    raise

    async def write(self) -> None:
        """Messages to its standard input."""
        try:
            async with self._outgoing:
                async for item in self._outgoing:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._stdin.send(text.encode("utf-8", "replace") + b"\n")
        except _GONE:
            await self._incoming.aclose()  # whoever waits for an answer learns that none comes
        finally:
            self._written.set()

    async def listen_to_errors(self) -> None:
        with suppress(*_GONE):
            while True:
                self._errors.add(await self._stderr.receive(_CHUNK))

    # -- the end -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ends the process and its group: asked, told, killed. Takes less than 2 s."""
        self._stopping = True
        self.read_stream.close()
        self.write_stream.close()
        with anyio.move_on_after(FLUSH_S):
            await self._written.wait()
        await _closed(self._stdin)
        if await self._has_left(LEAVE_S) and self._fell_silent:
            self._note_end()
        if _signalled(self._process.pid, signal.SIGTERM) and not await self._has_ended(TERM_S):
            _signalled(self._process.pid, signal.SIGKILL)
            await self._has_ended(KILL_S)
        REAPER.let_go(self._process.pid)
        for stream in (self._stdout, self._stderr, self._incoming, self._outgoing):
            await _closed(stream)
        _close_pipes(self._process)
        await anyio.lowlevel.checkpoint()

    def _note_end(self) -> None:
        if self._wire.trouble is None:
            self._wire.trouble = ended(self._process.returncode or 0, self.last_words())

    async def _has_left(self, within_s: float) -> bool:
        """Whether the process itself has ended. Not `wait`, which also waits for its pipes, that a child may hold."""
        with anyio.move_on_after(within_s):
            while self._process.returncode is None:
                await anyio.sleep(_POLL_S)
        return self._process.returncode is not None

    async def _has_ended(self, within_s: float) -> bool:
        """Whether the whole group has."""
        with anyio.move_on_after(within_s):
            while self._process.returncode is None or _signalled(self._process.pid, 0):
                await anyio.sleep(_POLL_S)
            return True
        return False


def message_of(line: bytes) -> Any:
    """The JSON-RPC message of a line, None if it is none.

    Bad UTF-8 inside it costs only the characters that it broke; what JSON allows and a strict parser refuses (a lone
    surrogate, deep nesting) costs nothing here.
    """
    if not line.lstrip().startswith(b"{"):
        return None
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    with suppress(ValueError, RecursionError):
        document = json.loads(line.decode("utf-8", "replace"))
        return jsonrpc_message_adapter.validate_python(document, by_name=False)
    return None


def ended(status: int, last_words: str) -> UpstreamError:
    """How a process ended, in words."""
    how = f"was ended by {_name_of(-status)}" if status < 0 else f"ended with exit status {status}"
    return UpstreamUnreachable(f"{how}: {last_words}" if last_words else f"{how}, and said nothing")


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signalled(group: int, number: int) -> bool:
    """Whether any process of the group is there to get it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


async def _closed(stream: Any) -> None:
    with suppress(*_GONE):
        await stream.aclose()


def _close_pipes(process: Process) -> None:
    """Whoever outlives the kill may hold a pipe open; nothing public closes our end of it."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    with suppress(PermissionError):
        if transport is not None:
            transport.close()
