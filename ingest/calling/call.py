"""A call of a tool, whoever asks for it and whatever runs it. Results are those of MCP, as the wire has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from waygraph.registry.model import Agent, Tool

Question = Literal["elicitation/create", "sampling/createMessage", "roots/list"]
"""What a server may ask its client for while it runs a tool, by MCP's name of the method."""

Result = Mapping[str, Any]
"""A `CallToolResult` as JSON: `content`, `structuredContent`, `isError`, `_meta`, and whatever else the server said."""


class Host(Protocol):
    """The side that asked for the call, for as long as the call runs. It may be gone: then nothing reaches it."""

    def can(self, question: Question) -> bool:
        """Whether it takes such questions."""
        ...

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Its answer, as the wire has it. Raises NotAnswered."""
        ...

    async def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None:
        """`level` is one of MCP's."""
        ...


class NotAnswered(Exception):
    """The host does not answer a question: it cannot, it is gone, or a person refused. The text says which."""


class Deaf:
    """A Host that takes no questions and hears nothing."""

    def can(self, question: Question) -> bool:  # noqa: ARG002
        return False

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        raise NotAnswered("the host takes no questions of servers")

    async def progress(self, done: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that may be made: policy and arguments are checked by whoever makes it. `deadline_s` is all its time."""

    agent: Agent
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    host: Host = field(default_factory=Deaf, repr=False, compare=False)


class ToolCaller(Protocol):
    """Runs tools of some agents. One object serves all calls of a process; calls of different agents never wait for
    each other.
    """

    async def call(self, call: ToolCall) -> Result:
        """The tool's own result, an error that it tells included. Cancelled, it tells the server.

        Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol.
        """
        ...
