"""An MCP server as a child process: one line, one message. After the SDK's `stdio_client`, for servers not trusted.

The child and all that it started are ended together; its error output is kept apart, its
standard output may hold what is no message, and a line without end is not gathered.

A child process with a parent of its own, which outlives neither us nor the connection (reaper_process.py).
"""

import errno
import json
import marshal
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from threading import Thread

import anyio
import anyio.lowlevel
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

from waygraph.ingest.manifest.environment import CERTIFICATES_TO_TRUST, inherited_variables, logins_in
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.manifest.redaction import Discretion
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.upstream.box import Box, box_of, sandlock_library
from waygraph.ingest.upstream.messages import (
    CHUNK,
    GONE_ERRORS,
    Item,
    LinesOut,
    MessagesIn,
    MessagesOut,
    Pipe,
    Unreadable,
    mend_answer,
    unreadable_document,
    unreadable_text,
)
from waygraph.ingest.upstream.process_health import (
    COMES_WITH,
    LIMITS,
    LOOK_S,
    activity_of,
    is_pulling,
    last_lines,
    launcher_of,
    raises_privileges,
)
from waygraph.ingest.upstream.reaper_process import GRACE_S, end_server
from waygraph.ingest.upstream.wire import Wire
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.process import forbid_inspection
from waygraph.registry.model.settings import Settings

END_S = GRACE_S + 0.4
"""How long SIGTERM and SIGKILL may take."""
_PROGRAM = Path(__file__).with_name("reaper_process.py")
_controls: set[socket.socket] = set()
"""Of all children. A forked process that held one open would keep a child alive."""


def _forget_children() -> None:
    for control in list(_controls):
        control.close()
    _controls.clear()


os.register_at_fork(after_in_child=_forget_children)


class Child:
    """A running program. It ends, with all that it started, when `end` is called or this process ends.

    Never started by a shell. Its limits are those of `settings` (process_health.py); `on_excess` gets the
    reason, in another thread, if it is ended.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        settings: Settings,
        on_excess: Callable[[str], None],
        *,
        box: Box | None = None,
    ) -> None:
        """Raises OSError if it cannot be started, and ValueError; `await_start` tells the rest."""
        raises, folder = raises_privileges(command[0], environment), os.path.abspath(folder)
        rules = (sandlock_library(), box.rules()) if box else None
        reading, wishes = os.pipe()  # of a server without a box it ends at once
        request = marshal.dumps((command, environment, folder, raises, rules and (*rules, wishes)))
        forbid_inspection()
        self._control, theirs = socket.socketpair()
        _controls.add(self._control)
        self._reports = bytearray()
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *([wishes] if box else [])],
                env={},
                cwd="/",
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            self._close_control()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(wishes)
        LIMITS.watch_over(self._process.pid, settings, on_excess)
        self.wishes = Pipe(os.fdopen(reading, "rb", 0))
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        # All three are there: they were asked for.
        self.stdin, self.stdout, self.stderr = (Pipe(each) for each in pipes if each is not None)
        with suppress(BrokenPipeError):
            self._control.sendall(request)

    @property
    def number(self) -> int:
        """Of the session of its processes, which its parent leads."""
        return self._process.pid

    async def await_start(self) -> None:
        """Raises OSError or ValueError if the program cannot be started; then, or if cancelled, all of it is ended."""
        try:
            await self._reads(1)
            if (line := self._reports.partition(b"\n")[0]) != b"started":
                number = int(line or errno.EPIPE)
                raise OSError(number, os.strerror(number)) if number else ValueError
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.end()
            raise

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs. Its own children may hold its pipes open."""
        has_ended = self._read()
        if len(lines := self._reports.split(b"\n")) > 2:
            return int(lines[1])
        return -signal.SIGKILL if has_ended else None

    async def leaves(self, within_s: float) -> bool:
        """Whether the program itself ends in this time."""
        with anyio.move_on_after(within_s):
            await self._reads(2)
        return self.status is not None

    async def end(self) -> None:
        """Ends the program and all that it started: told, then killed. Takes at most `END_S`."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        with anyio.move_on_after(END_S) as scope:
            await self._reads(3)
        if scope.cancelled_caught:
            end_server(self.number, {})  # its parent may have been stopped
        LIMITS.let_go(self.number)
        self._close_control()
        if self._process.poll() is None:  # slow to go on a busy machine: nobody waits, and no zombie stays
            Thread(target=self._process.wait, daemon=True).start()
        for file in (self.stdin, self.stdout, self.stderr, self.wishes):
            file.close()

    async def _reads(self, line_count: int) -> None:
        """Until its parent has written so many lines, or ended."""
        while not self._read() and self._reports.count(b"\n") < line_count:
            await anyio.wait_readable(self._control)

    def _read(self) -> bool:
        """Whether its parent has ended."""
        try:
            while chunk := self._control.recv(1024, socket.MSG_DONTWAIT):
                self._reports += chunk
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def _close_control(self) -> None:
        _controls.discard(self._control)
        self._control.close()


FLUSH_S, LEAVE_S = 0.2, 0.4
"""How long its last message and its own end may take: with `END_S` less than 2 s."""


@dataclass(slots=True)
class Ring:
    """The last so many bytes of an endless output."""

    most_bytes: int
    _content: bytearray = field(default_factory=bytearray)
    _is_cut: bool = False
    _since_mark: int = 0
    byte_count: int = 0
    """How many bytes came, since the beginning."""

    def add(self, chunk: bytes) -> None:
        self.byte_count += len(chunk)
        self._content += chunk
        self._since_mark += len(chunk)
        if len(self._content) > self.most_bytes:
            del self._content[: len(self._content) - self.most_bytes]
            self._is_cut = True

    def mark(self) -> None:
        self._since_mark = 0

    def since_mark(self) -> str:
        """The lines that began since then; all, if none did or some are gone."""
        if (begin := len(self._content) - self._since_mark) <= 0:
            return self.text()
        _, _, lines = self._content[begin - 1 :].partition(b"\n")
        return lines.decode("utf-8", "replace") if lines.strip() else self.text()

    def text(self) -> str:
        """Without the rest of a line that lost its beginning: half a secret is not known for one."""
        content = self._content.partition(b"\n")[2] if self._is_cut else self._content
        return content.decode("utf-8", "replace")


ERRORS_BYTES = 64 * 1024
"""How much of the end of a server's error output is kept, in memory."""
LAST_CHARS = 600
"""How much of it is reported of a server that failed."""
_ADVICE = (
    (
        re.compile(r"(?i)certificate|\bx509\b|\bPKIX\b|UnknownIssuer|self[-_ ]signed|CERT_|TLS.*\bCA\b"),
        CERTIFICATES_TO_TRUST,
    ),
    (
        re.compile(r"(?:ImportError|ModuleNotFoundError): .*\bmcp\b|AttributeError: '(?:Server|FastMCP)' object"),
        "it was written for an earlier release of the package mcp: `uvx --with 'mcp<2' …` starts it with that one",
    ),
)
"""What a server's last words look like, and what helps then."""


BLANKS = b" \t\r\n\xef\xbb\xbf"
"""What may stand before a message: white space, and the mark at the start of a text in UTF-8."""


class TooLong(Exception):
    """So many bytes and no message among them."""


@dataclass(slots=True)
class _Lines:
    """Bytes to lines. Holds no more than the longest line allowed."""

    most_bytes: int
    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. Raises TooLong."""
        head, newline, tail = chunk.rpartition(b"\n")
        if len(self._rest) + len(head if newline else chunk) > self.most_bytes:
            raise TooLong
        if not newline:
            self._rest += chunk
            return []
        whole, self._rest = bytes(self._rest) + head, bytearray(tail)
        return whole.split(b"\n")


@asynccontextmanager
async def stdio_transport(
    launch: StdioLaunch, settings: Settings, wire: Wire, discretion: Discretion
) -> AsyncGenerator[tuple[MessagesIn, MessagesOut]]:
    """Starts the server; leaving ends it, with all that it started. Raises UpstreamError."""
    wire.launcher = launcher_of(launch)
    server = _Server(await _start_child(launch, settings, wire, discretion), settings, wire, discretion)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.drain)
        tasks.start_soon(server.lines_out.run)
        tasks.start_soon(server.listen_to_errors)
        if wire.box:
            tasks.start_soon(server.listen_to_wishes, launch.note_wish)
        if wire.launcher:
            tasks.start_soon(server.watch_start)
        try:
            yield server.read_stream, server.write_stream
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()
                await server.note_wishes(launch.note_wish)
            tasks.cancel_scope.cancel()


async def _start_child(launch: StdioLaunch, settings: Settings, wire: Wire, discretion: Discretion) -> Child:
    def on_excess(reason: str) -> None:
        wire.excess = wire.trouble = UpstreamUnreachable(reason)

    variables = inherited_variables(os.environ, launch.env)
    discretion.learn(*logins_in(variables))
    environment = variables | dict(launch.env)
    name = discretion.line(str(references_only({"command": launch.command})["command"]))
    if launch.cwd and not Path(launch.cwd).is_dir():
        raise UpstreamUnreachable(f"its working directory is no folder: {discretion.line(launch.cwd)}")
    try:
        box = wire.box = box_of(launch, environment, settings)
        if box:
            box.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            environment |= {**box.variables(), **launch.env}
        command = box.program if box else launch.command
        child = Child([command, *launch.args], environment, launch.cwd, settings, on_excess, box=box)
        await child.await_start()
        return child
    except FileNotFoundError:
        where = "there is no such file" if os.sep in launch.command else "nothing of that name is on PATH"
        if comes_with := COMES_WITH.get(launch.command):
            where += f"; it comes with {comes_with}"
        if which(launch.command, path=environment.get("PATH")):
            where = "what its first line asks to run it with is not there"
        raise UpstreamUnreachable(f"command not found: {name} ({where})") from None
    except PermissionError:
        raise UpstreamUnreachable(f"command cannot be run: {name} (permission denied)") from None
    except (OSError, ValueError) as exc:
        if box and isinstance(exc, OSError) and exc.errno == errno.ENOTSUP:
            raise UpstreamRefused("its box cannot be made: sandlock refuses its profile") from None
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "an argument or variable is malformed"
        raise UpstreamUnreachable(f"command cannot be run: {name} ({reason})") from None


class _Server:
    """A child process and the streams between it and the SDK."""

    def __init__(self, child: Child, settings: Settings, wire: Wire, discretion: Discretion) -> None:
        self._child, self._settings, self._wire, self._discretion = child, settings, wire, discretion
        self._errors = Ring(ERRORS_BYTES)
        self._most = settings.upstream_max_message_bytes + CHUNK
        self._lines, self._idle = _Lines(self._most), 0
        self._wish_lines, self._wishes = _Lines(CHUNK), list[bytes]()
        self._stopping = self._fell_silent = False
        self.read_stream = MessagesIn(child.stdout, self._feed)
        self.lines_out = LinesOut(child.stdin, self._end_reading)
        self.write_stream = MessagesOut(self.lines_out)
        wire.last_words = self.last_words
        wire.push_decision.set()

    def last_words(self) -> str:
        """Rather of what it wrote since its last message: what it survived before says nothing of its end."""
        words = self._discretion.line(last_lines(self._errors.since_mark()), LAST_CHARS)
        advice = [advice for pattern, advice in _ADVICE if pattern.search(words)]
        advice += filter(None, [self._wire.box.advice(words)] if self._wire.box else [])
        return "; ".join([words, *advice])

    # -- streams -----------------------------------------------------------------------------------

    def _feed(self, chunk: bytes) -> list[Item]:
        """The messages that this chunk of its standard output completes; so much without one is too much."""
        self._idle += len(chunk)
        try:
            items = self._messages(self._lines.feed(chunk))
        except TooLong:
            items = None
        if items and any(isinstance(item, SessionMessage) for item in items):
            self._idle = 0
            self._errors.mark()
        elif items is None or self._idle > self._most:
            self._wire.trouble = UpstreamRefused(
                f"wrote more than {self._settings.upstream_max_message_bytes:,} bytes without a message that can be "
                "read (WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)"
            )
            self.read_stream.end()
        return items or []

    def _messages(self, lines: Iterable[bytes]) -> list[Item]:
        items: list[Item] = []
        for line in lines:
            if (message := message_of(line)) is None:
                self._wire.skipped_lines += bool(line.strip())
            else:
                items.append(message if isinstance(message, Unreadable) else SessionMessage(message))
        return items

    def _end_reading(self) -> None:
        """Whoever waits for an answer of one that takes no more questions learns that none comes."""
        self._fell_silent = self._fell_silent or not self._stopping
        self.read_stream.end_with(self._child.stdout.drain())

    async def drain(self) -> None:
        """What nobody reads any more: a server that is still writing would never come to read the end of its input."""
        await self.read_stream.left.wait()
        with suppress(*GONE_ERRORS):
            while True:
                await self._child.stdout.receive()
        self._fell_silent = self._fell_silent or not self._stopping

    async def listen_to_errors(self) -> None:
        with suppress(*GONE_ERRORS):
            while True:
                self._errors.add(await self._child.stderr.receive())

    async def listen_to_wishes(self, note: Callable[[str], object]) -> None:
        with suppress(*GONE_ERRORS):
            while True:
                self._wishes += self._wish_lines.feed(await self._child.wishes.receive())
                await self.note_wishes(note)

    async def note_wishes(self, note: Callable[[str], object]) -> None:
        """Those that came. Each is a line; one that holds a secret is not kept."""
        while self._wishes:
            wish = os.fsdecode(self._wishes.pop(0))
            if self._discretion.strike(wish) == wish:
                await anyio.to_thread.run_sync(note, wish)

    async def watch_start(self) -> None:
        """Tells of signs of life until the server speaks."""
        activity, count = activity_of(self._child.number), 0
        while not self._wire.message_count:
            await anyio.sleep(LOOK_S)
            before, activity = activity, activity_of(self._child.number)
            if activity.is_sign_of_life(before) or self._errors.byte_count > count or is_pulling(self._errors.text()):
                self._wire.on_life()
            count = self._errors.byte_count

    # -- the end -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ends the process and all that it started: asked, told, killed. Takes less than 2 s."""
        self._stopping = True
        self._fell_silent = self._fell_silent or self.read_stream.has_run_dry
        await self.read_stream.aclose()
        await self.write_stream.aclose()
        with anyio.move_on_after(FLUSH_S):
            await self.lines_out.flush()
        self._child.stdin.close()
        if await self._child.leaves(LEAVE_S) and self._fell_silent and self._wire.trouble is None:
            self._wire.trouble = end_error(self._child.status or 0, self.last_words())
        self._wire.trouble = self._wire.excess or self._wire.trouble  # a listing may have begun meanwhile
        for chunk in self._child.wishes.drain():
            self._wishes += self._wish_lines.feed(chunk)
        await self._child.end()


def read_message(line: str | bytes) -> types.JSONRPCMessage:
    """As the SDK's adapter reads it, which tries each kind where the keys tell which it is. Raises ValueError."""
    document = from_json(line)
    if kind := _kind(document):
        try:
            return kind.model_validate(document, by_name=False)
        except ValidationError:
            pass  # the adapter may yet find another kind in it, and says in its words if not
    return types.jsonrpc_message_adapter.validate_json(line, by_name=False)


def _kind(document: object) -> type[types.JSONRPCMessage] | None:
    """None: not told by the keys alone."""
    if not isinstance(document, dict) or ("method" in document) + ("result" in document) + ("error" in document) != 1:
        return None
    if "method" in document:
        return types.JSONRPCRequest if "id" in document else types.JSONRPCNotification
    return types.JSONRPCResponse if "result" in document else types.JSONRPCError


def message_of(line: bytes) -> types.JSONRPCMessage | Unreadable | None:
    """The JSON-RPC message of a line, None if it is none; an error in place of an answer that cannot be read.

    Bad UTF-8 inside it costs only the characters that it broke; what JSON allows and a strict parser refuses (a lone
    surrogate, deep nesting) costs nothing here.
    """
    if not (line := line.lstrip(BLANKS)).startswith(b"{"):
        return None
    try:
        return read_message(line)
    except ValueError as exc:
        fault = exc
    text = line.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return unreadable_text(text, fault)
    try:
        return types.jsonrpc_message_adapter.validate_python(document, by_name=False)
    except ValidationError:
        answer = mend_answer(document)
        return read_message(json.dumps(answer)) if answer else unreadable_document(document)


def end_error(status: int, last_words: str) -> UpstreamError:
    """How a process ended, in words."""
    how = f"ended with exit status {status}"
    if status < 0:
        is_known = -status in set(signal.Signals)
        how = f"was ended by {signal.Signals(-status).name if is_known else f'signal {-status}'}"
    return UpstreamUnreachable(f"{how}: {last_words}" if last_words else f"{how}, and said nothing")
