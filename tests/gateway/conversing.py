"""A host's lines, answered in this process by the SDK alone or directly where they can be: over real pipes."""

import json
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from waygraph.api.mcp import by_sdk
from waygraph.api.mcp.direct.answers import DirectAnswers
from waygraph.api.mcp.direct.pipe import DirectPipe
from waygraph.api.mcp.gateway import Asker, Discovery, Parts, Session, discovery_of, load_rules
from waygraph.api.mcp.host_pipes import HostPipes
from waygraph.api.mcp.stdio import InThreads
from waygraph.api.mcp.tools import Surface
from waygraph.api.telemetry.audit import Audit
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.upstream.pipe import LinesOut, Pipe
from waygraph.registry import Registry
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.settings import Settings

PATIENCE_S = 60.0
LATEST, MODERN = "2025-11-25", "2026-07-28"
OURS = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
ENVELOPE = {f"{OURS}protocolVersion": MODERN, f"{OURS}clientInfo": CLIENT, f"{OURS}clientCapabilities": {}}
HELLO: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": LATEST, "capabilities": {}, "clientInfo": CLIENT},
}
DISCOVER: Mapping[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": ENVELOPE}}
INITIALIZED: Mapping[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}

type Message = Mapping[str, Any]


def request(number: int | str, method: str, modern: bool = False, **params: Any) -> dict[str, Any]:
    meta = {"_meta": ENVELOPE} if modern else {}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **meta}}


def find(number: int | str, query: str, modern: bool = False, **arguments: Any) -> dict[str, Any]:
    return request(number, "tools/call", modern, name="find_tools", arguments={"query": query, **arguments})


@dataclass
class Conversation:
    """The host's side. `direct`: None where the SDK answers all."""

    asked: int
    told: int
    discovery: Discovery
    direct: DirectPipe | None = None
    over: anyio.Event = field(default_factory=anyio.Event)
    """The host is not served any more."""
    _rest: bytearray = field(default_factory=bytearray)

    def write(self, *lines: bytes) -> None:
        os.write(self.asked, b"".join(lines))

    def say(self, *messages: Message) -> None:
        self.write(*(line_of(message) for message in messages))

    def leave(self) -> None:
        os.close(self.asked)
        self.asked = -1

    async def heard(self) -> dict[str, Any]:
        """The next message. Raises EOFError."""
        with anyio.fail_after(PATIENCE_S):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self.told)
                if not (chunk := os.read(self.told, 65_536)):
                    raise EOFError
                self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def ask(self, message: Message) -> dict[str, Any]:
        """Whatever comes next."""
        self.say(message)
        return await self.heard()


def line_of(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextmanager
def _pipes() -> Iterator[Sequence[int]]:
    numbers = (*os.pipe(), *os.pipe())
    yield numbers
    os.close(numbers[2])


@asynccontextmanager
async def conversing(
    registry: Registry,
    *,
    directly: bool,
    surface: Surface = "default",
    timeout_s: float = PATIENCE_S,
    served: bool = True,
    waited_s: float = 0.0,
) -> AsyncGenerator[Conversation]:
    """As `waygraph mcp` puts its parts together, with the SDK there from the beginning, or not at all."""
    settings = Settings()
    rules = load_rules(settings)
    discovery = discovery_of(registry, settings, rules, InThreads(timeout_s), surface)
    asker = Asker(caller=LOCAL, session=Session())
    parts = Parts(
        discovery=discovery,
        settings=settings,
        surroundings=Surroundings.here({}),
        rules=rules,
        audit=Audit(None),
        asker_of=lambda _: asker,
        waited_s=lambda _: waited_s,
    )
    with _pipes() as (our_end, asked, told, their_end):
        conversation = Conversation(asked, told, discovery)
        with os.fdopen(our_end, "rb", 0) as reading, os.fdopen(their_end, "wb", 0) as writing:
            lines = LinesOut(Pipe(writing))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lines.run)
                direct = DirectPipe(Pipe(reading), lines, DirectAnswers(discovery, asker), tasks) if directly else None
                conversation.direct = direct
                if served:
                    tasks.start_soon(_served, parts, HostPipes(direct or Pipe(reading), lines), conversation)
                try:
                    yield conversation
                finally:
                    if conversation.asked >= 0:
                        conversation.leave()
                    tasks.cancel_scope.cancel()


async def _served(parts: Parts, pipes: HostPipes, conversation: Conversation) -> None:
    direct = conversation.direct
    await by_sdk.serve(parts, pipes, direct.has_answer if direct else lambda _: False)
    conversation.over.set()
