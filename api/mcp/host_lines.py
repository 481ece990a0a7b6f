"""What a host writes, line by line: its messages, and what it is told of a line that is none.

The SDK passes over what it cannot read, and a host waits for the answer to it in vain.
"""

import json
from typing import Any

from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, RequestId

from waygraph.ingest.upstream.messages import Item, read_message
from waygraph.registry.identity import mended

_NO_JSON = "this is no JSON-RPC message"
_NO_ID = "the id of a request is a text or a whole number"
_NO_MESSAGE = "this is no JSON-RPC message, or is nested too deeply to be passed on"


class NoMessage(ValueError):
    """A line that is no message. `answer`: what tells its host so."""

    def __init__(self, request_id: RequestId | None, code: int, reason: str) -> None:
        super().__init__(reason)
        error = ErrorData(code=code, message=reason)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


class Lines:
    """Chunks, cut into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def fed(self, chunk: bytes) -> list[Item]:
        """What this chunk completes."""
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, last = bytes(self._rest).split(b"\n")
        self._rest = bytearray(last)
        return [item_of(line) for line in lines if line.strip()]

    def ended(self) -> list[Item]:
        """What a last line without its end says."""
        last, self._rest = bytes(self._rest), bytearray()
        return [item_of(last)] if last.strip() else []


def item_of(line: bytes) -> Item:
    """The message, a NoMessage where an answer is due, or another ValueError, of which nobody hears."""
    text = line.decode("utf-8", "replace")
    try:
        message = read_message(text)
    except ValueError as fault:
        return _leniently(text, fault)
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(text):  # no id that the protocol has
        return NoMessage(None, INVALID_REQUEST, _NO_ID)
    return SessionMessage(message)


def _leniently(text: str, fault: ValueError) -> Item:
    """Half of a surrogate pair, which JSON allows and a strict parser refuses, costs only itself: it becomes `?`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return NoMessage(None, PARSE_ERROR, _NO_JSON)
    try:
        return SessionMessage(read_message(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        if isinstance(document, dict) and ("id" not in document or document.keys() & {"result", "error"}):
            return fault  # meant as a notification or an answer, to which there is no answer
        return NoMessage(_id_of(document), INVALID_REQUEST, _NO_MESSAGE)


def _id_of(document: Any) -> RequestId | None:
    named = document.get("id") if isinstance(document, dict) else None
    if isinstance(named, str):
        return mended(named)
    return named if isinstance(named, int) and not isinstance(named, bool) else None
