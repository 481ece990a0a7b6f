"""Answers of ours as MCP has them: text, and what goes wrong as a host's model reads it.

A host shows its model the results of tools, errors among them, and mostly keeps errors of the protocol to itself. So
whatever a model can mend (a name, arguments, a tool that may not be called) is a result with `isError`: a code, one
sentence and the facts, as JSON.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from waygraph.registry.http.problems import TYPE_PREFIX, code_of, is_own_fault, told_outside
from waygraph.registry.model.errors import WaygraphError

logger = logging.getLogger("waygraph.mcp")

INVALID_PARAMS, INTERNAL_ERROR, CONNECTION_CLOSED = -32602, -32603, -32000
"""Codes of the protocol's errors (JSON-RPC 2.0 §5.1, and the SDK's for a connection that is none)."""
OWN_FAULT = "the gateway met a fault of its own; its log knows more"
TOO_LATE = "no answer was ready in time"

type Result = dict[str, Any]


def told(error: WaygraphError | TimeoutError) -> Result:
    """The error as a tool's result."""
    if isinstance(error, TimeoutError):
        return refused("too-late", TOO_LATE, retryable=True)
    if is_own_fault(error):
        return refused("internal-error", sentence(error))
    outside = told_outside(error, 0, "")
    return refused(outside["code"], outside["detail"], retryable=outside["retryable"], facts=outside["facts"])


def as_protocol_has_it(error: WaygraphError | TimeoutError) -> tuple[int, str]:
    """Code and message of what is told in place of what is no call's answer."""
    if isinstance(error, TimeoutError):
        return INTERNAL_ERROR, TOO_LATE
    return INVALID_PARAMS, sentence(error)


def unforeseen(error: Exception) -> tuple[int, str]:
    """The same of what nobody foresaw: the log has it, the host learns that it happened."""
    logger.exception("a request of a host failed", exc_info=error)
    return INTERNAL_ERROR, OWN_FAULT


def sentence(error: WaygraphError) -> str:
    """What the host is told of it; the log has what it is not told."""
    if is_own_fault(error):
        logger.error("%s: %s", type(error).__name__, error)
        return OWN_FAULT
    return told_outside(error, 0, "")["detail"]


def refused(code: str, message: str, *, retryable: bool = False, facts: Mapping[str, Any] | None = None) -> Result:
    """An error that no class of ours stands for, in the same shape."""
    ours = {"code": code, "type": TYPE_PREFIX + code, "message": message, "retryable": retryable}
    # A model pays for each word: what the message says already is not said again.
    more = {name: value for name, value in (facts or {}).items() if name != "reason" or str(value) not in message}
    error = ours | more | ours
    return {"content": [text(compact({"error": error}))], "structuredContent": {"error": error}, "isError": True}


def protocol_error(error: WaygraphError) -> dict[str, Any]:
    """The error of the door itself, as JSON-RPC has it: what was asked did not get as far as a tool."""
    facts = {"code": code_of(type(error)), "retryable": error.retryable}
    return {"code": CONNECTION_CLOSED, "message": sentence(error), "data": facts}


def told_as_text(value: Mapping[str, Any]) -> Result:
    """An answer of a meta-tool: JSON as text, once. See docs/gateway.md for why there is no second copy."""
    return {"content": [text(compact(value))]}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
