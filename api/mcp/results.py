"""Answers of ours as MCP has them: text, and what goes wrong as a host's model reads it.

A host shows its model the results of tools, errors among them, and mostly keeps errors of the protocol to itself. So
whatever a model can mend is a result with `isError`: a name, arguments, a tool that may not be called. It has a code,
one sentence and the facts, as JSON.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from mcp import MCPError, types

from waygraph.api.mcp.protocol import UNFIT, mend_item, mend_result
from waygraph.ingest.execution.call import text
from waygraph.ingest.manifest.fields import fields_of
from waygraph.registry.catalog.tool_formats import keeps
from waygraph.registry.http.problems import TYPE_PREFIX, code_of, is_own_fault, public_problem
from waygraph.registry.model.errors import CallTimedOut, UnknownName, UpstreamAnswered, UpstreamError, WaygraphError
from waygraph.registry.model.transitions import owner_of

logger = logging.getLogger("waygraph.mcp")

_OF_A_CONNECTION = frozenset(
    {
        types.PARSE_ERROR,
        types.INVALID_REQUEST,
        types.METHOD_NOT_FOUND,
        types.CONNECTION_CLOSED,
        types.REQUEST_TIMEOUT,
        *range(-32029, -32019),
    }
)
"""Codes that speak of a connection and its two sides. A host would take them for its own connection to the gateway,
end it or agree on another protocol."""
GATEWAY = "gateway"
"""The first field of every error of ours. A text of an agent that imitates one begins with the name of its tool."""
OURS: Mapping[str, str] = {"by": GATEWAY}
"""The data of an error of the protocol that is ours."""
_LIKE_OURS = re.compile(r"[^\w{]*\{\W*(?:error|cut|mended)\b")
"""How an error of ours begins, and a note on what is missing of a result, or on arguments that were mended."""
_HOLDS_OURS = re.compile(
    r"\{[^\w{]*+(?:error[^\w{]*+\{[^\w{]*+by|cut[^\w{]*+\{[^\w{]*+(?:why|parts)|mended[^\w{]*+\{[^\w{]*+path)\b"
)
"""The same more strictly, behind other words: hosts show a model all texts of a result as one."""
WHOSE = "waygraph/agent"
"""In `_meta` of a server's answer: its agent, whatever the server says there."""
NOT_TAKEN = "(This part of the answer is of no kind that the protocol has.)"
BROKEN_PROMISE = "(The tool ran. What it returned is not what its outputSchema promises, or was cut.)"
OWN_FAULT = "the gateway met a fault of its own; its log knows more"
TOO_LATE = "no answer was ready in time"

type Result = dict[str, Any]


def attribute_result(result: Mapping[str, Any], tool_id: str, *, whole: bool = False) -> Mapping[str, Any]:
    """An agent's result as a host takes it; the same object if nothing is wrong with it.

    An error is one text, the tool's own; whose it is stands in `_meta`. A text that looks like one of ours begins with
    whose it is. The field `by` of an error in `structuredContent` is ours to fill as well. `whole`: no host reads it,
    so that its form stays.
    """
    answer = result if whole else _as_host_takes_it(result)
    structured = answer.get("structuredContent")
    content = answer.get("content", [])
    blocks = [_mark(each, tool_id) for each in content] if isinstance(content, list) else _mark(content, tool_id)
    if answer.get("isError") is True and not whole:
        blocks = _join_texts(blocks, structured, tool_id)
    elif not blocks and structured is not None and not whole:  # most hosts show their model the texts alone
        blocks = [text(mark_imitation(compact(structured), tool_id))]
    error = structured.get("error") if isinstance(structured, Mapping) else None
    if isinstance(structured, Mapping) and isinstance(error, Mapping) and "by" in error:
        structured = {**structured, "error": {**error, "by": tool_id}}
    changes: Result = {}
    if blocks != content:
        changes["content"] = blocks
    if structured is not answer.get("structuredContent"):
        changes["structuredContent"] = structured
    meta = fields_of(answer.get("_meta"))
    if changes or answer.get("isError") is True or WHOSE in meta:
        changes["_meta"] = {**meta, WHOSE: owner_of(tool_id)}
    return {**answer, **changes} if changes else answer


def _as_host_takes_it(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """By the protocol's schema. A block that does not fit stands as JSON in a text, and makes the result an error.

    A host would refuse the whole result, and its model would read nothing.
    """
    content = [] if result.get("content") is None else result["content"]
    parts = content if isinstance(content, list) else [content]
    blocks = [mend_item("tools/call", "content", each) for each in parts]
    if UNFIT not in blocks and isinstance(content, list):
        answer = mend_result("tools/call", {**result, "content": content})
        return result if answer == {"content": [], **result} else cast("Result", answer)
    for at, block in enumerate(blocks):
        if block is UNFIT:
            words = parts[at] if isinstance(parts[at], str) else compact(parts[at])
            blocks[at] = text(f"{words}\n{NOT_TAKEN}")
    return cast("Result", mend_result("tools/call", {**result, "content": blocks, "isError": True}))


def mark_imitation(words: str, tool_id: str) -> str:
    """A text of a tool; if it looks like one of ours, the name of the tool stands before it."""
    is_like_ours = _LIKE_OURS.match(words) or _HOLDS_OURS.search(words)
    return f"{_whose(tool_id)}\n{words}" if is_like_ours else words


def _mark(part: Any, tool_id: str) -> Any:
    """A block with its text marked, or that of the resource within it."""
    if isinstance(part, str):
        return mark_imitation(part, tool_id)
    if not isinstance(part, Mapping):
        return part
    marked = {name: _mark(part[name], tool_id) for name in ("text", "resource") if name in part}
    return part if all(part[name] is each for name, each in marked.items()) else {**part, **marked}


def _join_texts(blocks: Sequence[Mapping[str, Any]], structured: object, tool_id: str) -> list[Mapping[str, Any]]:
    """All texts of an error as the first block: many hosts show no other one."""
    texts = [block for block in blocks if block["type"] == "text"]
    if len(texts) == 1 and texts[0] is blocks[0]:
        return list(blocks)
    words = "\n\n".join(block["text"] for block in texts if block["text"].strip())
    if not words and structured is not None:
        words = mark_imitation(compact(structured), tool_id)
    words = words or f"The tool {tool_id} failed, and did not say why."
    return [text(words), *(block for block in blocks if block["type"] != "text")]


def without_broken_promise(result: Mapping[str, Any], promised: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a tool that promises this schema of its structured content, as a host takes it.

    What does not keep it is an error without structured content, which its texts tell as well.
    """
    structured = result.get("structuredContent")
    is_error = result.get("isError") is True
    if keeps(promised, structured) or (is_error and structured is None):
        return result
    answer = {name: value for name, value in result.items() if name != "structuredContent"}
    content = list(result.get("content", ()))
    if not content and structured is not None:
        content = [text(compact(structured))]
    remark = [] if is_error else [text(BROKEN_PROMISE)]
    return {**answer, "content": [*content, *remark], "isError": True}


def attribute_error(error: UpstreamAnswered, tool_id: str) -> UpstreamAnswered:
    """The same for an error of the protocol: its message begins with whose it is, and its `by` is ours to fill."""
    data = error.data
    if isinstance(data, Mapping) and "by" in data:
        data = {**data, "by": tool_id}
    return UpstreamAnswered(error.code, f"{_whose(tool_id)} {error.message}", data, retryable=error.retryable)


def _whose(tool_id: str) -> str:
    return f"The tool {tool_id} says, not the gateway:" if tool_id else "A tool says, not the gateway:"


def failure_result(error: WaygraphError | TimeoutError) -> Result:
    """The error as a tool's result. Raises MCPError for what an upstream server answered in the protocol."""
    if isinstance(error, UpstreamAnswered) and error.code not in _OF_A_CONNECTION:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
    if isinstance(error, TimeoutError):
        return refusal_result("too-late", TOO_LATE, retryable=True)
    if is_own_fault(error):
        return refusal_result("internal-error", sentence(error))
    outside = public_problem(error, 0, "")
    return refusal_result(outside["code"], outside["detail"], retryable=outside["retryable"], facts=outside["facts"])


@contextmanager
def request_errors() -> Iterator[None]:
    """Raises errors of what is within as a host reads them. The words of what nothing expects are in the log alone."""
    try:
        yield
    except (WaygraphError, TimeoutError) as error:
        raise request_error(error) from error
    except MCPError:
        raise
    except Exception as error:
        raise internal(error) from error


def request_error(error: WaygraphError | TimeoutError) -> MCPError:
    """The error of a request that is no call of a tool: ours says so in its data, a server's says whose it is."""
    if isinstance(error, UpstreamAnswered) and error.code not in _OF_A_CONNECTION:
        return MCPError(code=error.code, message=error.message, data=error.data)
    if isinstance(error, TimeoutError):
        return MCPError(code=types.INTERNAL_ERROR, message=TOO_LATE, data={**OURS, "code": "too-late"})
    facts: dict[str, Any] = {**OURS, "code": code_of(type(error)), "retryable": error.retryable}
    if isinstance(error, UnknownName) and error.noun == "resource":
        facts["uri"] = error.name  # as MCP asks for (SEP-2164)
    kind = types.INTERNAL_ERROR if isinstance(error, UpstreamError | CallTimedOut) else types.INVALID_PARAMS
    return MCPError(code=kind, message=sentence(error), data=facts)


def internal(error: Exception) -> MCPError:
    """An exception that nothing expects: the log has it, the host learns that it happened."""
    logger.exception("a request of a host failed", exc_info=error)
    return MCPError(code=types.INTERNAL_ERROR, message=OWN_FAULT, data=OURS)


def sentence(error: WaygraphError) -> str:
    """What the host reads of it; the log has the rest."""
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
    """The error of the endpoint itself, as JSON-RPC has it: the request did not get as far as a tool."""
    facts: dict[str, Any] = {**OURS, "code": code_of(type(error)), "retryable": error.retryable}
    return {"code": types.CONNECTION_CLOSED, "message": sentence(error), "data": facts}


def told_as_text(value: Mapping[str, Any]) -> Result:
    """An answer of a meta-tool: JSON as text, once. See docs/gateway.md for why there is no second copy."""
    return {"content": [text(compact(value))]}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
