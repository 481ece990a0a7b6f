"""Answers that cannot be read: why, and which request waits for them, so that its call fails at once.

The SDK drops such a message, or hands on the error of its parser, and the call would wait for its whole deadline.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from mcp.types import INTERNAL_ERROR, RequestId
from pydantic import ValidationError

_EDGE_CHARS = 64 * 1024
"""So much of a message is looked through for its names; an id that comes last is looked for in _TAIL_CHARS."""
_TAIL_CHARS = 400
_PART = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*+:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
_VALUE = re.compile(r'\s*+(?:(-?\d{1,18}+)|"([^"\\]{1,200})")\s*+[,}]')
_LAST_ID = re.compile(r',\s*"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,200})")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_FAULT = re.compile(r"(?m)^(?:  Invalid JSON: )?([A-Za-z][\w ]{1,80} at line \d+ column \d+)")
"""As pydantic's parser says it; what it quotes of the answer stands in no line of its own."""
_LIST = "[type=model_type, input_value=["
NOT_OF_PROTOCOL = "its answer is not of the protocol"


def mend_answer(document: Mapping[str, Any], request_id: object = None) -> dict[str, Any] | None:
    """The answer in a document that is none by the protocol: without `jsonrpc`, or with an error of another form.

    None: there is no answer in it. `request_id`: which request it answers, where it does not say so itself.
    """
    id_or_none = document.get("id")
    answer = {"jsonrpc": "2.0", "id": request_id if id_or_none is None else id_or_none}
    if "method" in document or not isinstance(answer["id"], int | str) or isinstance(answer["id"], bool):
        return None
    if (error := document.get("error")) is not None:
        code, message = error_words(error)
        data = error.get("data") if isinstance(error, Mapping) else None
        return answer | {"error": {"code": code, "message": message} | ({} if data is None else {"data": data})}
    return answer | {"result": document["result"]} if isinstance(document.get("result"), Mapping) else None


def error_words(error: object) -> tuple[int, str]:
    """Code and message of an error as servers write them: it may be a text, or say why under another name."""
    fields = error if isinstance(error, Mapping) else {}
    code = fields.get("code")
    number = code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR
    reason = reason_in(error) or reason_in(fields.get("data")) or json.dumps(error, ensure_ascii=False, default=str)
    return number, f"{code}: {reason}" if isinstance(code, str) and code else reason


def reason_in(document: object) -> str:
    """By the names that services have for it (JSON-RPC, OAuth, RFC 9457 and others)."""
    if isinstance(document, Mapping):
        names = ("error_description", "message", "detail", "title", "error", "errors")
        return next((reason for name in names if (reason := reason_in(document.get(name)))), "")
    if isinstance(document, list):
        return reason_in(document[0]) if document else ""
    return document if isinstance(document, str) else ""


def refusal_text(body: bytes) -> str:
    """What the body of a refusal says in words; empty for a page, or what is no text."""
    text = body.decode("utf-8-sig", "replace").strip()
    try:
        reason = reason_in(json.loads(text))
    except (ValueError, RecursionError):
        reason = text
    return "" if reason.startswith("<") or "\ufffd" in reason else reason


class Unreadable(Exception):
    """`reason` begins with "its answer"; `request_id` None: it cannot be made out."""

    def __init__(self, reason: str, request_id: RequestId | None) -> None:
        self.reason, self.request_id = reason, request_id
        super().__init__(reason)

    def request_in(self, waiting: Collection[RequestId]) -> RequestId | None:
        """The request of ours that it answers: by its id, else the only one there is."""
        if self.request_id is None:
            return next(iter(waiting)) if len(waiting) == 1 else None
        return next((each for each in waiting if str(each) == str(self.request_id)), None)


def fault_of(error: str) -> str:
    """The reason in the text of a parser's error."""
    if match := _FAULT.search(error):
        return f"its answer is no JSON that can be read: {match[1]}"
    return "its answer is a list of messages, where one is expected" if _LIST in error else NOT_OF_PROTOCOL


def unreadable_text(text: str, error: Exception) -> Unreadable | None:
    """Of a text that no parser took; None for one that is no answer, such as a line of a log."""
    names = _names_in(text[:_EDGE_CHARS])
    match = _VALUE.match(text, names["id"]) if "id" in names else _LAST_ID.search(text[-_TAIL_CHARS:])
    return _unreadable(names, _id_in(match), fault_of(str(error)))


def unreadable_document(document: Mapping[str, Any]) -> Unreadable | None:
    """Of JSON that is no message."""
    message_id = document.get("id")
    is_id = isinstance(message_id, int | str) and not isinstance(message_id, bool)
    return _unreadable(document, message_id if is_id else None, NOT_OF_PROTOCOL)


def unreadable_event(error: Exception) -> Unreadable | None:
    """Of an event of a stream, by the SDK's error for it."""
    if not isinstance(error, ValidationError):
        return None
    content = error.errors(include_url=False, include_context=False)[0]["input"]
    if isinstance(content, str | bytes):
        return unreadable_text(content if isinstance(content, str) else content.decode("utf-8", "replace"), error)
    return unreadable_document(content) if isinstance(content, dict) else Unreadable(fault_of(str(error)), None)


def _unreadable(names: Collection[str], request_id: RequestId | None, reason: str) -> Unreadable | None:
    has_payload = request_id is not None and ("result" in names or "error" in names)
    is_answer = "method" not in names and ("jsonrpc" in names or has_payload)
    return Unreadable(reason, request_id) if is_answer else None


def _names_in(text: str) -> Mapping[str, int]:
    """The names of the outermost object, each with where its value begins."""
    level, names = 0, dict[str, int]()
    for part in _PART.finditer(text):
        if (mark := part[0][0]) in "{[":
            level += 1
        elif mark in "}]":
            level -= 1
        elif level == 1 and part[2]:
            names[part[1]] = part.end()
    return names


def _id_in(match: re.Match[str] | None) -> RequestId | None:
    if match is None:
        return None
    return match[2] if match[1] is None else int(match[1])
