"""A connection to one MCP server, the host on whose behalf it calls tools, and how many servers start at a time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Protocol, get_args

import anyio

from waygraph.ingest.manifest.records import Launch
from waygraph.registry.model.errors import UpstreamRefused, UpstreamUnreachable

# What an MCP server offers, as it said it: unchecked, bounded.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerListing:
    """One whole listing. `tools` are the wire's own objects, in the server's order: a bad one costs only itself."""

    name: str = ""
    title: str = ""
    version: str = ""
    instructions: str = ""
    protocol: str = ""
    """The protocol version that was agreed."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    prompts: int = 0
    resources: int = 0
    resource_templates: int = 0
    skills: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    skills_fault: str = ""
    """Why its skills could not be listed."""
    lasts_s: float | None = None
    """For how long the server says that it holds (`ttlMs`); None: not said."""
    notifies: bool = False
    """Whether the server tells of changes by itself."""


Question = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
"""What a server may ask its client for while it runs a tool, by MCP's name of the method."""
QUESTIONS: tuple[Question, ...] = get_args(Question)

CALL = "tools/call"
SKILLS = "io.modelcontextprotocol/skills"
"""The extension by which a server serves Agent Skills (SEP-2640)."""
LISTS: Mapping[str, str] = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Methods that list what a server has beside its tools, each with the field that holds the list."""

Result = Mapping[str, Any]
"""A `CallToolResult` as JSON: `content`, `structuredContent`, `isError`, `_meta`, and whatever else the server said."""


class Host(Protocol):
    """The side that asked for the call, for as long as the call runs. It may be gone: then nothing reaches it.

    Hosts that are equal are one: what a server says without naming its call goes to a host only if all calls that are
    under way there are that host's.
    """

    @property
    def owner(self) -> object:
        """Whose it is. Equal for hosts of which nobody can tell whether they are one; of others what comes late, after
        the answer to its call, is kept away.
        """
        ...

    @property
    def log_level(self) -> str:
        """From which of MCP's levels on it wants to hear what tools log; empty: it has not said."""
        ...

    def can(self, question: Question) -> bool:
        """Whether it takes such questions."""
        ...

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its answer, as the wire has it. Raises NotAnswered."""
        ...

    async def progress(self, amount: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None:
        """`level` is one of MCP's."""
        ...


ANSWER_S = 300.0
"""So long may a person, or a model, take for an answer. It does not count to the call's own time."""


class Through:
    """A host as somebody between sees it, who has a word in what is asked. Whatever differs is of a kind of its own."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.can, self.log_level, self.owner = host.can, host.log_level, host.owner

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Through) and self._host == other._host

    def __hash__(self) -> int:
        return hash(self._host)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._host.ask(question, params)

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        await self._host.progress(amount, total, message)

    async def log(self, level: str, data: object, logger: str | None) -> None:
        await self._host.log(level, data, logger)


class NotAnswered(Exception):
    """The host does not answer a question: it cannot, it is gone, or a person refused. The text says which."""


class Deaf:
    """A Host that takes no questions and hears nothing."""

    log_level = ""

    @property
    def owner(self) -> object:
        return self

    def can(self, question: Question) -> bool:  # noqa: ARG002
        return False

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        raise NotAnswered("the host takes no questions of servers")

    async def progress(self, amount: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None: ...


class Connection(Protocol):
    """An open connection; it is closed by leaving the context that opened it, in the task that entered it.

    Every method raises UpstreamError, never an error of the SDK or the transport.
    """

    async def listing(self) -> ServerListing:
        """All that the server offers now, all pages, asked anew. Bounded in time, pages, tools and bytes."""
        ...

    async def await_change(self) -> None:
        """Returns when the server told of a change since the last `listing` began; raises when the connection ends.

        Many tellings are one. Of a server that does not notify it only ever raises.
        """
        ...


class CallConnection(Connection, Protocol):
    """One that tools are called over, any number at a time."""

    @property
    def is_open(self) -> bool:
        """False from the moment at which the server's end is known."""
        ...

    @property
    def message_count(self) -> int:
        """How many messages have come, of whatever kind."""
        ...

    async def await_end(self) -> None:
        """Returns when the connection is open no more."""
        ...

    @property
    def change_count(self) -> int:
        """How often the server told that a list of its has changed."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, host: Host, input_schema: str = "", method: str = CALL
    ) -> Result:
        """The result as the wire had it, an error that the tool tells included.

        Of another `method` the arguments are all its parameters, and `name` only says what is asked for. One of LISTS
        returns the whole list, which is kept until the server tells of a change, or for LIST_KEPT_S at most.

        What the server tells and asks meanwhile goes to `host`. A cancellation of the call tells the server and waits
        for nothing. `input_schema`: of the tool, JSON; a server of the modern era may want some arguments in headers.
        Raises UpstreamAnswered for an error of the protocol, NotDelivered if the tool surely did not run, and any other
        UpstreamError if that is not known, as MayHaveRun if it was lost.
        """
        ...


_MAY_HAVE_RUN = "; whether the tool did its work is not known"


class NotDelivered(UpstreamUnreachable):
    """The request did not reach the server: on another connection it may be made again."""


class MayHaveRun(UpstreamUnreachable):
    """The server was lost after it was asked: to ask again may do it twice."""

    retryable = False

    def __init__(self, reason: str) -> None:
        text = reason if reason.endswith(_MAY_HAVE_RUN) else f"{reason}{_MAY_HAVE_RUN}"
        super().__init__(text)


Connect = Callable[[Launch], AbstractAsyncContextManager[Connection]]
"""Opens a connection, within its deadline. Raises UpstreamError."""


class NotOffered(UpstreamRefused):
    """The server does not know the method."""


Wait = Callable[[], Awaitable[object]]


class Clock(Protocol):
    """Time, as those who follow servers see it: handed in, so that a test can let an hour pass at once."""

    def now_s(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def utc(self) -> str:
        """ISO 8601 in UTC, to the second."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def now_s(self) -> float:
        return anyio.current_time()

    def utc(self) -> str:
        return datetime.now(UTC).isoformat(timespec="seconds")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def first_of(*waits: Wait) -> int:
    """The number of the wait that ended first; the others are cancelled. Raises what one of them raises."""
    numbers: list[int] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def one(number: int, wait: Wait) -> None:
            try:
                await wait()
            except Exception as error:  # noqa: BLE001 - raised again below, out of the group
                errors.append(error)
            numbers.append(number)
            group.cancel_scope.cancel()

        for number, wait in enumerate(waits):
            group.start_soon(one, number, wait)
    if errors:
        raise errors[0]
    return numbers[0]


SERVERS_AT_ONCE = 32
"""Servers that are asked at a time, over HTTP or started before."""
START_S = 5.0
"""How long a start keeps its place: what takes longer waits for something, and needs no processor."""


class Starts:
    """At most `limit` servers that are being started at a time: each takes processor time and memory.

    One that takes longer than `patience_s` gives up its place, though not its start: servers that never answer keep
    nobody waiting.
    """

    def __init__(self, limit: int, patience_s: float, clock: Clock) -> None:
        self._limit, self._patience_s, self._clock = limit, patience_s, clock
        self._begun: dict[object, float] = {}
        self._freed = anyio.Event()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place, and holds it."""
        while (wait_s := self._wait_s()) > 0:
            await first_of(self._freed.wait, partial(self._clock.sleep, wait_s))
        mine = object()
        self._begun[mine] = self._clock.now_s()
        try:
            yield
        finally:
            del self._begun[mine]
            self._freed.set()
            self._freed = anyio.Event()

    def _wait_s(self) -> float:
        """0 if there is a place; else how long until one is given up."""
        now = self._clock.now_s()
        ends = sorted(end for start in self._begun.values() if (end := start + self._patience_s) > now)
        return ends[-self._limit] - now if len(ends) >= self._limit else 0.0
