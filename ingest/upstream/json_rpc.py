"""JSON-RPC over HTTP: the message that a request carries, and answers of ours in a server's place.

The SDK hands such an answer to whoever asked, and all that is asked beside it goes on.
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx2

KINDS = frozenset({"application/json", "text/event-stream"})
"""As which a request is answered over streamable HTTP."""


def kind_of(response: httpx2.Response) -> str:
    """Its media type, without parameters."""
    named: str = response.headers.get("content-type", "")
    return named.partition(";")[0].strip().lower()


def message_in(request: httpx2.Request) -> dict[str, Any]:
    """What is sent; empty if that is no message."""
    try:
        message = json.loads(request.content)
    except (httpx2.RequestNotRead, ValueError):
        return {}
    return message if isinstance(message, dict) else {}


def answer_to(request: httpx2.Request, status: int, body: bytes) -> httpx2.Response:
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body, request=request)


def error_to(request: httpx2.Request, status: int, error: Mapping[str, Any]) -> httpx2.Response:
    """Without an id: the SDK knows which request it answers."""
    return answer_to(request, status, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
