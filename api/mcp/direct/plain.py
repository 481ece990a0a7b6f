"""Requests of a host in their plain form: read without the SDK's types, and known to be what they would accept.

Whatever is not plain (a field that these types check and this module does not, an older or newer form, a mistake) is
none of these: the SDK reads it, and says what is wrong with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

type RequestId = int | str
type Document = dict[str, Any]

OF_THE_PROTOCOL = "io.modelcontextprotocol/"
VERSION, CLIENT, ABILITIES = (
    OF_THE_PROTOCOL + name for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)
CANCELLED = "notifications/cancelled"

_REQUEST, _NOTIFICATION = {"jsonrpc", "id", "method", "params"}, {"jsonrpc", "method", "params"}
_TEXTS = ("name", "version", "title", "description", "websiteUrl")
_OBJECTS_OF_OBJECTS = ("experimental", "extensions")
_NESTED = ("sampling", "elicitation", "tasks")


@dataclass(frozen=True, slots=True)
class Plain:
    """One request. `version`: what it says itself, empty where the handshake said it."""

    id: RequestId
    method: str
    params: Mapping[str, Any]
    version: str = ""


def read(line: bytes) -> Document | None:
    """The JSON-RPC message that a line is; None: it is none."""
    try:
        message = from_json(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


def plain(message: Document) -> Plain | None:
    """The request that a message is; None: it is another message, or not plain."""
    if message.keys() - _REQUEST or not _is_id(message.get("id")):
        return None
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        return None
    meta = params.get("_meta", {})
    if not isinstance(meta, dict) or not _is_id(meta.get("progressToken", 0)):
        return None
    if all(not key.startswith(OF_THE_PROTOCOL) for key in meta):
        return Plain(message["id"], method, params)
    return Plain(message["id"], method, params, meta[VERSION]) if _is_envelope(meta) else None


def is_notification(message: Document) -> bool:
    """Nobody waits for an answer to it."""
    return not message.keys() - _NOTIFICATION and isinstance(message.get("method"), str)


def cancelled(message: Document) -> RequestId | None:
    """The id of the request that this notification gives up; None: it gives up none."""
    params = message.get("params")
    if not is_notification(message) or message["method"] != CANCELLED or not isinstance(params, dict):
        return None
    named = params.get("requestId")
    return named if _is_id(named) else None


def is_greeting(params: Mapping[str, Any]) -> bool:
    """Whether these are plain parameters of `initialize`."""
    return (
        params.keys() == {"protocolVersion", "capabilities", "clientInfo"}
        and isinstance(params["protocolVersion"], str)
        and _is_client(params["clientInfo"])
        and _are_abilities(params["capabilities"])
    )


def _is_id(value: object) -> bool:
    """Also of progress: a token is what an id is."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _is_envelope(meta: Mapping[str, Any]) -> bool:
    """What a request of the modern era says of itself (MCP 2026-07-28, Per-request protocol fields)."""
    said = {key for key in meta if key.startswith(OF_THE_PROTOCOL)}
    return (
        {VERSION, ABILITIES} <= said <= {VERSION, ABILITIES, CLIENT}
        and isinstance(meta[VERSION], str)
        and _are_abilities(meta[ABILITIES])
        and (CLIENT not in meta or _is_client(meta[CLIENT]))
    )


def _is_client(value: object) -> bool:
    return (
        isinstance(value, dict)
        and {"name", "version"} <= value.keys()
        and all(isinstance(value.get(name, ""), str) for name in _TEXTS)
        and "icons" not in value
    )


def _are_abilities(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(_is_object_of_objects(value.get(name, {})) for name in _OBJECTS_OF_OBJECTS)
        and all(_is_nested(value.get(name, {})) for name in _NESTED)
        and _are_roots(value.get("roots", {}))
    )


def _are_roots(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("listChanged", True), bool)


def _is_object_of_objects(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _is_nested(value: object) -> bool:
    """Objects, all the way down."""
    return isinstance(value, dict) and all(_is_nested(each) for each in value.values())
