"""Answers of ours as MCP has them: text, and what goes wrong as a host's model reads it.

A host shows its model the results of tools, errors among them, and mostly keeps errors of the protocol to itself. So
whatever a model can mend (a name, arguments, a tool that may not be called) is a result with `isError`: a code, one
sentence and the facts, as JSON.
"""

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
)

from waygraph.registry.http.problems import TYPE_PREFIX, code_of, is_own_fault, public_problem
from waygraph.registry.model.errors import CallTimedOut, UnknownName, UpstreamAnswered, UpstreamError, WaygraphError

logger = logging.getLogger("waygraph.mcp")

_OF_A_CONNECTION = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, CONNECTION_CLOSED, REQUEST_TIMEOUT, *range(-32029, -32019)}
)
"""Codes that speak of a connection and its two sides. A host would take them for its own connection to the gateway,
end it or agree on another protocol."""
GATEWAY = "gateway"
"""The first field of every error of ours. Where an agent's result could be taken for one, our words stand before it."""
OURS: Mapping[str, str] = {"by": GATEWAY}
"""The data of an error of the protocol that is ours."""
_LIKE_OURS = re.compile(r"[^\w{]*\{\W*error\b")
OWN_FAULT = "the gateway met a fault of its own; its log knows more"
TOO_LATE = "no answer was ready in time"

type Result = dict[str, Any]


def error_result(error: WaygraphError | TimeoutError) -> Result:
    """The error as a tool's result."""
    if isinstance(error, TimeoutError):
        return refusal_result("too-late", TOO_LATE, retryable=True)
    if is_own_fault(error):
        return refusal_result("internal-error", sentence(error))
    outside = public_problem(error, 0, "")
    return refusal_result(outside["code"], outside["detail"], retryable=outside["retryable"], facts=outside["facts"])


def attribute_result(result: Mapping[str, Any], tool_id: str) -> Mapping[str, Any]:
    """An agent's result; where it is an error, or looks like one of ours, it begins with whose it is.

    The field `by` of an error in `structuredContent` is ours to fill as well.
    """
    content, structured = result.get("content"), result.get("structuredContent")
    error = structured.get("error") if isinstance(structured, Mapping) else None
    texts = [part.get("text") for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    is_like_ours = any(isinstance(said, str) and _LIKE_OURS.match(said) for said in texts)
    if not (result.get("isError") is True or is_like_ours or isinstance(error, Mapping)):
        return result
    whose = text(_whose(tool_id))
    told = {**result, "content": [whose, *content] if isinstance(content, list) else content}
    if isinstance(error, Mapping) and isinstance(structured, Mapping):
        told["structuredContent"] = {**structured, "error": {**error, "by": tool_id}} if "by" in error else structured
    return told


def attribute_error(error: UpstreamAnswered, tool_id: str) -> UpstreamAnswered:
    """The same for an error of the protocol: its message begins with whose it is, and its `by` is ours to fill."""
    data = error.data
    if isinstance(data, Mapping) and "by" in data:
        data = {**data, "by": tool_id}
    return UpstreamAnswered(error.code, f"{_whose(tool_id)} {error.message}", data, retryable=error.retryable)


def _whose(tool_id: str) -> str:
    return f"The tool {tool_id} says, not the gateway:"


def failure_result(error: WaygraphError | TimeoutError) -> Result:
    """The error as a tool's result. Raises MCPError for what an upstream server answered in the protocol."""
    if isinstance(error, UpstreamAnswered) and error.code not in _OF_A_CONNECTION:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
    return error_result(error)


def offer_error(error: WaygraphError | TimeoutError) -> MCPError:
    """The error of a request for a prompt or resource: ours says so in its data, a server's says whose it is."""
    if isinstance(error, UpstreamAnswered) and error.code not in _OF_A_CONNECTION:
        return MCPError(code=error.code, message=error.message, data=error.data)
    if isinstance(error, TimeoutError):
        return MCPError(code=INTERNAL_ERROR, message=TOO_LATE, data={**OURS, "code": "too-late"})
    facts: dict[str, Any] = {**OURS, "code": code_of(type(error)), "retryable": error.retryable}
    if isinstance(error, UnknownName) and error.noun == "resource":
        facts["uri"] = error.name  # as MCP asks for (SEP-2164)
    kind = INTERNAL_ERROR if isinstance(error, UpstreamError | CallTimedOut) else INVALID_PARAMS
    return MCPError(code=kind, message=sentence(error), data=facts)


def as_error(error: WaygraphError | TimeoutError) -> MCPError:
    """The error of a request that is no call."""
    if isinstance(error, TimeoutError):
        return MCPError(code=INTERNAL_ERROR, message=TOO_LATE, data=OURS)
    return MCPError(code=INVALID_PARAMS, message=sentence(error), data=OURS)


def internal(error: Exception) -> MCPError:
    """An exception that nothing expects: the log has it, the host learns that it happened."""
    logger.exception("a request of a host failed", exc_info=error)
    return MCPError(code=INTERNAL_ERROR, message=OWN_FAULT, data=OURS)


def sentence(error: WaygraphError) -> str:
    """What the host is told of it; the log has what it is not told."""
    if is_own_fault(error):
        logger.error("%s: %s", type(error).__name__, error)
        return OWN_FAULT
    return public_problem(error, 0, "")["detail"]


def refusal_result(
    code: str, message: str, *, retryable: bool = False, facts: Mapping[str, Any] | None = None
) -> Result:
    """An error that no class of ours stands for, in the same shape."""
    ours = {"by": GATEWAY, "code": code, "type": TYPE_PREFIX + code, "message": message, "retryable": retryable}
    # A model pays for each word: what the message says already is not said again.
    more = {name: value for name, value in (facts or {}).items() if name != "reason" or str(value) not in message}
    error = ours | more | ours
    return {"content": [text(compact({"error": error}))], "structuredContent": {"error": error}, "isError": True}


def protocol_error(error: WaygraphError) -> dict[str, Any]:
    """The error of the door itself, as JSON-RPC has it: what was asked did not get as far as a tool."""
    facts: dict[str, Any] = {**OURS, "code": code_of(type(error)), "retryable": error.retryable}
    return {"code": CONNECTION_CLOSED, "message": sentence(error), "data": facts}


def told_as_text(value: Mapping[str, Any]) -> Result:
    """An answer of a meta-tool: JSON as text, once. See docs/gateway.md for why there is no second copy."""
    return {"content": [text(compact(value))]}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
