"""Whether a server's refusal means that it no longer knows the session, however it says so.

By the protocol that is HTTP 404 (MCP 2025-11-25, Transports, Session Management). Servers also answer 410, 400 and 500,
or with a JSON-RPC error within 200. What such a server refused has not run, so that it may be asked anew in a session
of its own: whatever leaves that open, or speaks of the arguments, is no end of a session.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx2
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR, ErrorData

from waygraph.ingest.upstream.wire import object_in

HEADER = "mcp-session-id"
_OF_THE_REQUEST = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR})
"""Errors that say what is wrong with the request itself."""
_OF_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})
"""Who may ask, and how often."""
_MOST_CHARS = 300
"""A longer text says more than that."""
_SESSION = re.compile(r"(?i)session|not\s+(?:yet\s+|been\s+)?initiali[sz]ed")
_NO_SESSION = re.compile(
    r"""(?xi)
    \b(?:no|un(?:known|recognized)|invalid|expired|missing|stale)\b [^.;]{0,30} \bsession
    | \bsession (?:[\s_-]?id)? \b [^.;]{0,60}
      \b(?:not|no\ longer|unknown|invalid|expired|missing|terminated|closed|ended|gone|lost|timed\ out|doesn't)\b
    | \bnot\ (?:yet\ |been\ )? initiali[sz]ed\b"""
)


def session_of(request: httpx2.Request, form: str) -> str:
    """By which a request names its session: the older transport gives each an address to post to."""
    session_id: str = request.headers.get(HEADER, "")
    return session_id or (request.url.raw_path.decode() if form == "sse" and request.method == "POST" else "")


def ends_session(message: Mapping[str, Any], session_id: str, status: int, body: bytes, *, has_answered: bool) -> bool:
    """Of an answer with an HTTP error. `has_answered`: the session has taken requests before this one."""
    if not session_id or status in _OF_THE_CALLER:
        return False
    answer = object_in(body)
    fault = answer.get("error")
    error = fault if isinstance(fault, dict) else {}
    if error.get("code") in _OF_THE_REQUEST:
        return status == 404 and error["code"] != METHOD_NOT_FOUND
    if status in {404, 410}:
        return True
    reason = error.get("message") or (body.decode("utf-8", "replace") if not answer else json.dumps(answer))
    if status != 400:
        return names_no_session(str(reason), message, session_id)
    # Nothing runs that is answered with 400; without this request's id it was refused before it was read.
    of_request = bool(answer) and answer.get("id") == message.get("id")
    return _is_of_session(str(reason), message, session_id, _SESSION) or (has_answered and not of_request)


def error_ends_session(error: ErrorData, params: Mapping[str, Any], session_id: str) -> bool:
    """Of a JSON-RPC error. Here only its words tell whether anything ran."""
    if not session_id or error.code in _OF_THE_REQUEST:
        return False
    return names_no_session(error.message, params, session_id)


def names_no_session(text: str, params: Mapping[str, Any], session_id: str) -> bool:
    return _is_of_session(text, params, session_id, _NO_SESSION)


def _is_of_session(text: str, params: Mapping[str, Any], session_id: str, words: re.Pattern[str]) -> bool:
    """Not where the request names a session of another kind: the tool may be speaking of that one."""
    if len(text) > _MOST_CHARS or not words.search(text):
        return False
    return session_id in text or "session" not in json.dumps(params).lower()
