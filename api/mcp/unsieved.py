"""Answers reach the host as they are.

The SDK reads each answer into its own types on the way out. That drops fields it does not know, puts the keys of
schemas in another order, and refuses a result for one content block of a newer kind. What tools answer is theirs, so
handlers hand it past the SDK; what belongs to the protocol (its envelope) the SDK still makes.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import SERVER_INFO_META_KEY
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

_METHODS = frozenset({"tools/call", "tools/list"})
_EMPTY: Mapping[str, dict[str, Any]] = {"tools/call": {"content": []}, "tools/list": {"tools": []}}
_ENVELOPE = ("resultType", "ttlMs", "cacheScope")
"""What the protocol says of an answer: ours, also where an upstream server said the same of its own."""

_WHOLE: ContextVar[list[Mapping[str, Any]]] = ContextVar("whole")


def as_it_is(ctx: ServerRequestContext[Any, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a handler returns so that the host gets this answer whole."""
    _WHOLE.get().append(answer)
    envelope = {name: answer[name] for name in _ENVELOPE if ctx.method == "tools/list" and name in answer}
    return {"resultType": "complete"} | _EMPTY[ctx.method] | envelope


async def unsieved(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server."""
    if ctx.method not in _METHODS:
        return await call_next(ctx)
    whole: list[Mapping[str, Any]] = []
    token = _WHOLE.set(whole)
    try:
        made = await call_next(ctx)
    finally:
        _WHOLE.reset(token)
    return _laid_over(made, whole[-1], ctx.protocol_version) if whole and isinstance(made, dict) else made


def _laid_over(made: Mapping[str, Any], answer: Mapping[str, Any], version: str) -> dict[str, Any]:
    ours = {name: value for name, value in made.items() if name in _ENVELOPE}
    theirs = {name: value for name, value in answer.items() if name not in (*_ENVELOPE, "_meta")}
    said = answer.get("_meta")
    told_beside = said if isinstance(said, Mapping) else {}  # a server may put anything there
    meta = {name: value for name, value in told_beside.items() if name != SERVER_INFO_META_KEY}
    meta |= made.get("_meta") or {}
    told = {**ours, **theirs} | ({"_meta": meta} if meta else {})
    return _for_older_hosts(told) if version in HANDSHAKE_PROTOCOL_VERSIONS else told


def _for_older_hosts(answer: dict[str, Any]) -> dict[str, Any]:
    """Up to the revision of 2025-11-25 `structuredContent` is an object, and a host refuses anything else.

    The text that stands beside it says the same; where there is none it is made.
    """
    if "structuredContent" not in answer or isinstance(answer["structuredContent"], dict):
        return answer
    from waygraph.api.mcp.results import compact, text

    value = answer.pop("structuredContent")
    if not answer.get("content") and value is not None:
        answer["content"] = [text(compact(value))]
    return answer
