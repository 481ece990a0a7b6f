"""Named spans of the work that is going on, for whoever set a tracer; where nobody did, they cost next to nothing.

The core speaks of no tracing library. A span's attributes say how work is done (which recipe, how many rows), never
what was asked: they leave the machine.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import StrEnum
from time import perf_counter
from typing import Any, Literal, Protocol

Attribute = str | bool | int | float
Side = Literal["client", "server"]
Meter = Callable[[Side, str, str, float], None]


class Tracer(Protocol):
    """Makes spans; the one entered last, in the same context, is the parent. Threads may share it."""

    def span(self, name: str, attributes: Mapping[str, Attribute]) -> AbstractContextManager[object]: ...

    def mcp_span(
        self, side: Side, operation: "McpOperation", meta: Mapping[str, Any]
    ) -> AbstractContextManager[object]: ...


OTHER = "_OTHER"
"""What the conventions say in place of a method or an error that is not of a bounded set."""
_NO_SPAN = nullcontext()
_tracer: Tracer | None = None
_meter: Meter | None = None
_OPERATION: ContextVar["McpOperation | None"] = ContextVar("operation", default=None)


def span(name: str, **attributes: Attribute) -> AbstractContextManager[object]:
    """A span that lasts as long as the context is entered."""
    return _NO_SPAN if _tracer is None else _tracer.span(name, attributes)


def set_tracer(tracer: Tracer | None) -> None:
    """Who makes the spans of this process from now on; None: nobody."""
    global _tracer  # noqa: PLW0603 - one a process, as a trace crosses every layer of it
    _tracer = tracer


class Name(StrEnum):
    """The names that operations of MCP have in OpenTelemetry's conventions (semantic-conventions-genai 0.1.0)."""

    METHOD = "mcp.method.name"
    VERSION = "mcp.protocol.version"
    TOOL = "gen_ai.tool.name"
    PROMPT = "gen_ai.prompt.name"
    OPERATION = "gen_ai.operation.name"
    REQUEST_ID = "jsonrpc.request.id"
    TRANSPORT = "network.transport"
    STATUS_CODE = "rpc.response.status_code"
    ERROR = "error.type"
    CLIENT_DURATION = "mcp.client.operation.duration"
    SERVER_DURATION = "mcp.server.operation.duration"


class McpOperation:
    """One request of MCP. What is set in `attributes` while it runs is on its span in the end."""

    def __init__(self, method: str, version: str, transport: str) -> None:
        fields = {Name.METHOD: method, Name.VERSION: version, Name.TRANSPORT: transport}
        self.attributes: dict[str, Attribute] = {name: value for name, value in fields.items() if value}
        if method == "tools/call":
            self.attributes[Name.OPERATION] = "execute_tool"

    @property
    def span_name(self) -> str:
        target = self.attributes.get(Name.TOOL) or self.attributes.get(Name.PROMPT) or ""
        return f"{self.attributes[Name.METHOD]} {target}".rstrip()

    def note_answer(self, answer: object) -> None:
        if isinstance(answer, Mapping) and answer.get("isError") is True:
            self.attributes[Name.ERROR] = "tool_error"

    def note_failure(self, error: BaseException) -> None:
        """Its code, if it is an error of the protocol, else its type. Anything may stand in its text."""
        code = getattr(error, "code", None)
        self.attributes[Name.ERROR] = str(code) if isinstance(code, int) else type(error).__name__
        if isinstance(code, int):
            self.attributes[Name.STATUS_CODE] = str(code)


@contextmanager
def mcp_operation(
    side: Side, method: str, *, version: str = "", transport: str = "", meta: Mapping[str, Any] | None = None
) -> Iterator[McpOperation]:
    """A request that is made (`client`) or answered (`server`): a span, and how long it took.

    `meta`: the `_meta` of a request that came, which may name the span of whoever sent it.
    """
    operation, start_s = McpOperation(method, version, transport), perf_counter()
    token = _OPERATION.set(operation)
    try:
        with _NO_SPAN if _tracer is None else _tracer.mcp_span(side, operation, meta or {}):
            try:
                yield operation
            except BaseException as error:
                operation.note_failure(error)
                raise
    finally:
        _OPERATION.reset(token)
        if _meter is not None:
            _meter(side, method, str(operation.attributes.get(Name.ERROR, "")), perf_counter() - start_s)


def note_target(name: Name, value: str) -> None:
    """The tool or prompt that the present operation turned out to be about, unless it said so itself."""
    if (operation := _OPERATION.get()) is not None:
        operation.attributes.setdefault(name, value)


def is_tracing() -> bool:
    return _tracer is not None


def set_meter(meter: Meter | None) -> None:
    """Who counts the operations of this process from now on: side, method, type of error or "", seconds."""
    global _meter  # noqa: PLW0603 - as the tracer
    _meter = meter
