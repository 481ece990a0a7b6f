"""A call of a tool, whoever asks for it and whatever runs it. Results are those of MCP, as the wire has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from waygraph.ingest.upstream.host import ANSWER_S, Deaf, Host, NotAnswered, Question, Result
from waygraph.registry.model import Agent, Tool

__all__ = ["ANSWER_S", "STOPPING", "Deaf", "Host", "NotAnswered", "Question", "Result", "ToolCall", "ToolCaller"]

STOPPING = "the gateway is being stopped"
"""Why calls end, and none begin, while it closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that may be made: policy and arguments are checked by whoever makes it.

    `deadline_s` is all its time, and `waited_s` how much of it was over when it came. `caller` tells callers apart;
    empty: nobody is told apart.
    """

    agent: Agent
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    waited_s: float = 0.0
    caller: str = ""
    host: Host = field(default_factory=Deaf, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Of the tool, as who called it knows it."""
        return self.tool.call_name or self.tool.id


class ToolCaller(Protocol):
    """Runs tools of some agents. One object serves all calls of a process; calls of different agents never wait for
    each other.
    """

    async def call(self, call: ToolCall) -> Result:
        """The tool's own result, an error that it tells included. Cancelled, it tells the server.

        Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol.
        """
        ...
