"""Messages of JSON-RPC as lines over our ends of pipes, and answers that cannot be read.

Lines are read and written by whoever receives and sends them. With a task and a stream between each of these and its
pipe, as the SDK's own transports have it, more of a call's time would go into changes of task than into the call.
"""

import asyncio
import json
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, Protocol

import anyio
import anyio.lowlevel
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, JSONRPCMessage, RequestId
from pydantic import ValidationError

CHUNK = 64 * 1024
_MOST_HELD = 1024 * 1024
"""What Linux gives a pipe at most, unless root asks for more."""

GONE_ERRORS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
"""How a pipe tells that there is nobody at its other end, or that it was closed here."""


class Chunks(Protocol):
    """Bytes as they come. `receive` raises one of GONE_ERRORS, also for who waits when `wake` is called."""

    async def receive(self) -> bytes: ...

    def wake(self) -> None: ...


class Pipe:
    """Our end of a pipe. Raises anyio's EndOfStream, BrokenResourceError and ClosedResourceError, as its streams do."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._fd = file.fileno()
        self._had_more = False
        self._reading: asyncio.Future[bool] | None = None
        os.set_blocking(self._fd, False)

    async def receive(self) -> bytes:
        """At most CHUNK bytes; never none."""
        if self._had_more:
            await anyio.lowlevel.checkpoint()  # one that always has more must leave others their turn
        self._had_more = True
        while not self._file.closed:
            try:
                chunk = os.read(self._fd, CHUNK)
            except BlockingIOError:
                self._had_more = False
                await self._readable()
                continue
            if not chunk:
                raise anyio.EndOfStream
            return chunk
        raise anyio.ClosedResourceError

    def drain(self) -> Iterator[bytes]:
        """What it holds by now: no more than a system keeps for a pipe, as its writer may never end."""
        for _ in range(_MOST_HELD // CHUNK):
            try:
                chunk = b"" if self._file.closed else os.read(self._fd, CHUNK)
            except OSError:
                return
            if not chunk:
                return
            yield chunk

    def put(self, content: bytes | bytearray) -> int:
        """How many bytes of it are written; what does not fit now is not waited for."""
        if self._file.closed:
            raise anyio.ClosedResourceError
        try:
            return os.write(self._fd, content) if content else 0
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def writable(self) -> None:
        """Returns when some of what is put would fit."""
        if self._file.closed:
            raise anyio.ClosedResourceError
        await anyio.wait_writable(self._fd)

    def wake(self) -> None:
        """Who waits for it gets a ClosedResourceError."""
        if self._reading is not None:
            _settle(self._reading, False)
            self._forget(self._reading)
        if not self._file.closed:
            anyio.notify_closing(self._fd)

    async def _readable(self) -> None:
        """As `anyio.wait_readable`, which finds out for each wait anew in which loop that is and what else waits."""
        loop = asyncio.get_running_loop()
        self._reading = reading = loop.create_future()
        loop.add_reader(self._fd, _settle, reading, True)
        try:
            if not await reading:
                raise anyio.ClosedResourceError
        finally:
            self._forget(reading)

    def _forget(self, reading: "asyncio.Future[bool]") -> None:
        """Once: afterwards the number may be that of another file."""
        if self._reading is reading:
            self._reading = None
            reading.get_loop().remove_reader(self._fd)

    def close(self) -> None:
        if not self._file.closed:
            self.wake()
            with suppress(OSError):
                self._file.close()


def _settle(reading: "asyncio.Future[bool]", is_readable: bool) -> None:
    if not reading.done():
        reading.set_result(is_readable)


class LinesOut:
    """What goes to a pipe, each line whole, though who writes it is cancelled meanwhile. `run` is its task."""

    def __init__(self, pipe: Pipe, on_gone: Callable[[], None] = lambda: None) -> None:
        self._pipe, self._on_gone = pipe, on_gone
        self._rest = bytearray()
        self._queued = self._taken = 0
        """How many bytes there were to write, and how many of them the pipe has, since the beginning."""
        self._is_full, self._is_taken = anyio.Event(), anyio.Event()
        self._is_over = self._is_gone = False

    async def write(self, line: bytes) -> None:
        """Returns when the pipe has all of it, whatever is queued behind it.

        Raises BrokenResourceError and ClosedResourceError, if the pipe does not have all of it and never will.
        """
        if self._is_over:
            raise anyio.ClosedResourceError
        try:
            count = 0 if self._rest else self._pipe.put(line)
        except GONE_ERRORS:
            self._is_over = True
            self._on_gone()
            raise anyio.BrokenResourceError from None
        self._rest += line[count:]
        self._queued += len(line)
        self._taken += count
        if self._rest:
            self._is_full.set()
        end = self._queued
        await self._until(end)
        if self._taken < end:
            raise anyio.BrokenResourceError

    async def _until(self, end: int) -> None:
        """Returns when the pipe has as many bytes, or takes no more."""
        while self._taken < end and not self._is_gone:
            await self._is_taken.wait()

    async def run(self) -> None:
        """Writes on what the pipe did not take at once. Until it is cancelled, or nobody reads."""
        try:
            while True:
                await self._is_full.wait()
                self._is_full = anyio.Event()
                while self._rest:
                    await self._pipe.writable()
                    count = self._pipe.put(self._rest)
                    del self._rest[:count]
                    self._taken += count
                    self._is_taken.set()
                    self._is_taken = anyio.Event()
        except GONE_ERRORS:
            self._on_gone()
        finally:
            self._is_over = self._is_gone = True
            self._is_taken.set()

    async def flush(self) -> None:
        """Returns when nothing is left to be written, or nothing can be."""
        await self._until(self._queued)

    def close(self) -> None:
        self._is_over = True


type Item = SessionMessage | Exception


def encode_message(message: JSONRPCMessage) -> bytes:
    """One line. Raises ValueError for what JSON does not have."""
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode("utf-8", "replace") + b"\n"


class MessagesIn(ObjectReceiveStream[Item]):
    """What a pipe brings; `items_of` makes of each chunk what it completes."""

    def __init__(self, pipe: Chunks, items_of: Callable[[bytes], Iterable[Item]]) -> None:
        self.left = anyio.Event()
        """Nobody reads the pipe any more."""
        self.has_run_dry = False
        """The other end was closed."""
        self._pipe, self._items_of = pipe, items_of
        self._items = deque[Item]()

    async def receive(self) -> Item:
        """Raises EndOfStream."""
        if self._items:
            await anyio.lowlevel.checkpoint()  # however many came at once, each is heard of before the next
        while not self._items:
            if self.left.is_set():
                raise anyio.EndOfStream
            try:
                self._items.extend(self._items_of(await self._pipe.receive()))
            except GONE_ERRORS:
                self.has_run_dry = not self.left.is_set()
                self.left.set()
        return self._items.popleft()

    def end(self) -> None:
        """What was read is still handed out, and then no more."""
        if not self.left.is_set():
            self.left.set()
            self._pipe.wake()

    def end_with(self, chunks: Iterable[bytes]) -> None:
        """The same, and what the pipe holds by now is heard first: who is gone may have answered before."""
        if not self.left.is_set():
            for chunk in chunks:
                self._items.extend(self._items_of(chunk))
            self.end()

    async def aclose(self) -> None:
        self._items.clear()
        self.end()


class MessagesOut(ObjectSendStream[SessionMessage]):
    """What goes to a pipe as `lines` has it: `encode` makes a line of a message."""

    def __init__(self, lines: LinesOut, encode: Callable[[JSONRPCMessage], bytes] = encode_message) -> None:
        self._lines, self._encode = lines, encode

    async def send(self, item: SessionMessage, /) -> None:
        """Returns when the pipe has all of it. Raises BrokenResourceError and ClosedResourceError, if it never will."""
        if line := self._encode(item.message):  # what is not to be written waits for nothing
            await self._lines.write(line)

    async def aclose(self) -> None:
        self._lines.close()


_EDGE_CHARS = 64 * 1024
"""So much of a message is looked through for its names; an id that comes last is looked for in _TAIL_CHARS."""
_TAIL_CHARS = 400
_PART = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
_VALUE = re.compile(r'\s*+(?:(-?\d{1,18}+)|"([^"\\]{1,200})")\s*+[,}]')
_LAST_ID = re.compile(r',\s*"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,200})")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_FAULT = re.compile(r"(?m)^(?:  Invalid JSON: )?([A-Za-z][\w ]{1,80} at line \d+ column \d+)")
"""As pydantic's parser says it; what it quotes of the answer stands in no line of its own."""
_LIST = "[type=model_type, input_value=["
NOT_OF_PROTOCOL = "its answer is not of the protocol"


def mend_answer(document: Mapping[str, Any], request_id: object = None) -> dict[str, Any] | None:
    """The answer in a document that is none by the protocol: without `jsonrpc`, or with an error of another form.

    None: there is no answer in it. `request_id`: which request it answers, where it does not say so itself.
    """
    id_or_none = document.get("id")
    answer = {"jsonrpc": "2.0", "id": request_id if id_or_none is None else id_or_none}
    if "method" in document or not isinstance(answer["id"], int | str) or isinstance(answer["id"], bool):
        return None
    if (error := document.get("error")) is not None:
        code, message = error_words(error)
        data = error.get("data") if isinstance(error, Mapping) else None
        return answer | {"error": {"code": code, "message": message} | ({} if data is None else {"data": data})}
    return answer | {"result": document["result"]} if isinstance(document.get("result"), Mapping) else None


def error_words(error: object) -> tuple[int, str]:
    """Code and message of an error as servers write them: it may be a text, or say why under another name."""
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    number = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    reason = reason_in(error) or reason_in(fields.get("data")) or json.dumps(error, ensure_ascii=False, default=str)
    return number, f"{code}: {reason}" if isinstance(code, str) and code else reason


def reason_in(document: object) -> str:
    """By the names that services have for it (JSON-RPC, OAuth, RFC 9457 and others)."""
    if isinstance(document, Mapping):
        names = ("error_description", "message", "detail", "title", "error", "errors")
        return next((reason for name in names if (reason := reason_in(document.get(name)))), "")
    if isinstance(document, list):
        return reason_in(document[0]) if document else ""
    return document if isinstance(document, str) else ""


def refusal_text(body: bytes) -> str:
    """What the body of a refusal says in words; empty for a page, or what is no text."""
    text = body.decode("utf-8-sig", "replace").strip()
    try:
        reason = reason_in(json.loads(text))
    except (ValueError, RecursionError):
        reason = text
    return "" if reason.startswith("<") or "\ufffd" in reason else reason


class Unreadable(Exception):
    """`reason` begins with "its answer"; `request_id` None: it cannot be made out."""

    def __init__(self, reason: str, request_id: RequestId | None) -> None:
        self.reason, self.request_id = reason, request_id
        super().__init__(reason)

    def request_in(self, waiting: Collection[RequestId]) -> RequestId | None:
        """The request of ours that it answers: by its id, else the only one there is."""
        if self.request_id is None:
            return next(iter(waiting)) if len(waiting) == 1 else None
        return next((each for each in waiting if str(each) == str(self.request_id)), None)


def fault_of(error: str) -> str:
    """The reason in the text of a parser's error."""
    if match := _FAULT.search(error):
        return f"its answer is no JSON that can be read: {match[1]}"
    return "its answer is a list of messages, where one is expected" if _LIST in error else NOT_OF_PROTOCOL


def unreadable_text(text: str, error: Exception) -> Unreadable | None:
    """Of a text that no parser took; None for one that is no answer, such as a line of a log."""
    names = _names_in(text[:_EDGE_CHARS])
    match = _VALUE.match(text, names["id"]) if "id" in names else _LAST_ID.search(text[-_TAIL_CHARS:])
    request_id = None if match is None else match[2] if match[1] is None else int(match[1])
    return _unreadable(names, request_id, fault_of(str(error)))


def unreadable_document(document: Mapping[str, Any]) -> Unreadable | None:
    """Of JSON that is no message."""
    message_id = document.get("id")
    is_id = isinstance(message_id, int | str) and not isinstance(message_id, bool)
    return _unreadable(document, message_id if is_id else None, NOT_OF_PROTOCOL)


def unreadable_event(error: Exception) -> Unreadable | None:
    """Of an event of a stream, by the SDK's error for it."""
    if not isinstance(error, ValidationError):
        return None
    content = error.errors(include_url=False, include_context=False)[0]["input"]
    if isinstance(content, str | bytes):
        return unreadable_text(content if isinstance(content, str) else content.decode("utf-8", "replace"), error)
    return unreadable_document(content) if isinstance(content, dict) else Unreadable(fault_of(str(error)), None)


def _unreadable(names: Collection[str], request_id: RequestId | None, reason: str) -> Unreadable | None:
    has_payload = request_id is not None and ("result" in names or "error" in names)
    is_answer = "method" not in names and ("jsonrpc" in names or has_payload)
    return Unreadable(reason, request_id) if is_answer else None


def _names_in(text: str) -> Mapping[str, int]:
    """The names of the outermost object, each with where its value begins."""
    level, names = 0, dict[str, int]()
    for part in _PART.finditer(text):
        if (mark := part[0][0]) in "{[":
            level += 1
        elif mark in "}]":
            level -= 1
        elif level == 1 and part[2]:
            names[part[1]] = part.end()
    return names
