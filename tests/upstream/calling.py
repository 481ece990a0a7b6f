"""Calls over a connection or a pool, and a host that keeps what it hears."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.upstream.launches import PROGRAMS, SETTINGS
from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.ingest.upstream.connection import CallConnection, NotAnswered, Question, Result
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import CallTimedOut

PATIENCE_S = 60.0


@dataclass
class Listening:
    """A host that takes the questions it has answers to, and remembers everything in the order it came."""

    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    heard: list[Any] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    refuses: str = ""
    thinks: anyio.Event | None = None
    """A question is answered when it is set."""
    name: str = ""
    log_level: str = ""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Listening) and self.name == other.name != "")

    __hash__ = object.__hash__

    @property
    def owner(self) -> object:
        return self

    def can(self, question: Question) -> bool:
        return question in self.answers or bool(self.refuses)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((question, params))
        if self.thinks is not None:
            await self.thinks.wait()
        if self.refuses:
            raise NotAnswered(self.refuses)
        return self.answers[question]

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        await anyio.lowlevel.checkpoint()
        self.heard.append((amount, total, message))

    async def log(self, level: str, data: object, logger: str | None) -> None:
        await anyio.lowlevel.checkpoint()
        self.heard.append((level, data, logger))


def tools_by_hand(*args: str, env: Mapping[str, str] | None = None) -> StdioLaunch:
    """A server of the handshake era with the tools of programs/tools.py."""
    return StdioLaunch(command=sys.executable, args=("-S", str(PROGRAMS / "tools.py"), *args), env=env or {})


@dataclass
class Asking:
    """Calls over one connection, within the patience of a test."""

    connection: CallConnection

    async def raw(
        self, name: str, host: Listening | None = None, timeout_s: float = PATIENCE_S, **given: Any
    ) -> Result:
        with anyio.move_on_after(timeout_s):
            return await self.connection.call(name, given, host=host or Listening())
        raise CallTimedOut(name, timeout_s)

    async def text(self, name: str, host: Listening | None = None, **given: Any) -> str:
        return str((await self.raw(name, host, **given))["content"][0]["text"])

    async def json(self, name: str, host: Listening | None = None, **given: Any) -> Any:
        return json.loads(await self.text(name, host, **given))

    async def heard(self) -> tuple[Any, ...]:
        """What the server got, of programs/tools.py."""
        return (await self.connection.listing()).tools

    async def until_heard(self, wanted: Callable[[Any], object]) -> Any:
        """What the server got and that fits; waits for it."""
        with anyio.fail_after(PATIENCE_S):
            while not (fit := [message for message in await self.heard() if wanted(message)]):
                await anyio.sleep(0.02)
        return fit[0]


@asynccontextmanager
async def asking(launch: Launch) -> AsyncIterator[Asking]:
    async with connect(launch, SETTINGS, follow=False) as connection:
        yield Asking(connection)


@asynccontextmanager
async def over(launch: Launch) -> AsyncIterator[Asking]:
    """As `asking`, for a bounded time."""
    async with asking(launch) as calls:
        with anyio.fail_after(2 * PATIENCE_S):
            yield calls
