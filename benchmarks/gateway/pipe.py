"""The least client: one line out, one line in. What the gateway itself takes, without what a client does with it."""

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.gateway.overhead import WrongAnswer
from benchmarks.record import PROJECT

HANDSHAKE = "2025-11-25"
LONGEST = 64 * 1024 * 1024


class Pipe:
    """A session of the handshake era with a program, over its standard input and output."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._out, self._in = process.stdin, BufferedByteReceiveStream(process.stdout)
        self._numbers = itertools.count(1)

    async def begin(self) -> None:
        about = {"name": "pipe", "version": "1"}
        said = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": about}
        await self.ask("initialize", said)
        await self._send({"method": "notifications/initialized"})

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises WrongAnswer for an error of the tool."""
        result = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise WrongAnswer(f"{tool}: {json.dumps(result)[:500]}")
        return result

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result. Raises WrongAnswer for an error of the protocol."""
        number = next(self._numbers)
        await self._send({"id": number, "method": method, "params": params})
        while True:
            answer: dict[str, Any] = json.loads(await self._in.receive_until(b"\n", LONGEST))
            if answer.get("id") != number:
                continue
            if "result" not in answer:
                raise WrongAnswer(f"{method}: {json.dumps(answer)[:500]}")
            result: dict[str, Any] = answer["result"]
            return result

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._out.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def piped(command: Sequence[str], environ: Mapping[str, str], log: Path) -> AsyncIterator[Pipe]:
    """A session with a program that is started for it, and ends with it."""
    with log.open("ab") as said:
        async with await anyio.open_process(command, stderr=said, env=environ, cwd=PROJECT) as process:
            pipe = Pipe(process)
            await pipe.begin()
            yield pipe
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()
