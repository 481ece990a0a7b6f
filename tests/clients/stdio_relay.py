"""`waygraph mcp` behind HTTP, for programs that test servers by an address: a process for each session of the handshake
era, and one for all requests of the modern era.
"""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

from mcp.types import PROTOCOL_VERSION_META_KEY

from tests.upstream.served import Asgi

MODERN = ""
"""In place of a session's id."""


class _Session:
    def __init__(self, process: Process) -> None:
        self.process, self._numbers = process, count(1)
        self._open: dict[int, tuple[object, asyncio.Queue[dict[str, Any]]]] = {}
        self.reading = asyncio.create_task(self._read())

    def write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def ask(self, message: Mapping[str, Any]) -> "asyncio.Queue[dict[str, Any]]":
        """What comes until the answer. Ids of several clients may be the same, so each gets another on the way."""
        number, queue = next(self._numbers), asyncio.Queue[dict[str, Any]]()
        self._open[number] = message["id"], queue
        self.write({**message, "id": number})
        return queue

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message and message.get("id") in self._open:
                own, queue = self._open.pop(message["id"])
                queue.put_nowait({**message, "id": own})
            elif self._open:
                next(reversed(self._open.values()))[1].put_nowait(message)


def relay(command: Sequence[str], environ: Mapping[str, str]) -> Asgi:
    sessions: dict[str, _Session] = {}

    async def begin(session_id: str) -> _Session:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=dict(environ), limit=2**24
        )
        sessions[session_id] = _Session(process)
        return sessions[session_id]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        session_id = headers.get("mcp-session-id", MODERN)
        if scope["method"] != "POST":
            await _send(send, 405 if scope["method"] == "GET" else 200)
            return
        body = b""
        while (part := await receive()).get("more_body", False):
            body += part["body"]
        message = json.loads(body + part["body"])
        if message.get("method") == "initialize" or not (session_id or _is_modern(message)):
            session_id = uuid4().hex  # by its first message a connection is of one era
        session = sessions.get(session_id) or await begin(session_id)
        if "id" not in message or "method" not in message:
            session.write(message)
            await _send(send, 202)
            return
        named = [(b"mcp-session-id", session_id.encode())] if session_id else []
        events = [(b"content-type", b"text/event-stream"), *named]
        await send({"type": "http.response.start", "status": 200, "headers": events})
        queue = session.ask(message)
        while True:
            told = await queue.get()
            event = f"event: message\ndata: {json.dumps(told)}\n\n".encode()
            is_last = "method" not in told
            await send({"type": "http.response.body", "body": event, "more_body": not is_last})
            if is_last:
                return

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await answer(scope, receive, send)
            return
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        for session in sessions.values():
            session.reading.cancel()
            with suppress(ProcessLookupError):
                session.process.terminate()
            await session.process.wait()
        await send({"type": "lifespan.shutdown.complete"})

    return app


def _is_modern(message: Mapping[str, Any]) -> bool:
    return PROTOCOL_VERSION_META_KEY in ((message.get("params") or {}).get("_meta") or {})


async def _send(send: Any, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body"})
