"""The answer of a service as the result of a tool: text, structured content, images, other files."""

import codecs
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from waygraph.ingest.execution.web_request import Response
from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.manifest.redaction import strike_secrets, struck_json
from waygraph.ingest.sources.formats.openapi_calls import is_json
from waygraph.ingest.upstream.connection import Deaf, Host, Result
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import Settings

# A call of a tool, whoever asks for it and whatever runs it. Results are those of MCP, as the wire has them.


STOPPING = "the gateway is being stopped"
"""Why calls end, and none begin, while it closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that may be made: policy and arguments are checked by whoever makes it.

    `deadline_s` is all its time. `caller` tells callers apart; empty: nobody is told apart.
    """

    agent: Agent
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    deadline_s: float
    caller: str = ""
    host: Host = field(default_factory=Deaf, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Of the tool, as who called it knows it."""
        return self.tool.call_name or self.tool.id


class ToolCaller(Protocol):
    """Runs tools of some agents. One object serves all calls of a process; calls of different agents never wait for
    each other.
    """

    async def call(self, call: ToolCall) -> Result:
        """The tool's own result, an error that it tells included. Cancelled, it tells the server.

        Raises NotCallable, CallTimedOut, UpstreamError; UpstreamAnswered for an error of the protocol.
        """
        ...


MOST_ERROR_CHARS = 16_000
"""Of the body of an answer that is an error: as much as anyone would read."""
_TEXTS = ("text/", "application/xml", "application/yaml", "application/javascript", "application/x-www-form-urlencoded")
_OF_NAMES = frozenset({"idna", "punycode"})
"""Encodings of host names: Python's need minutes for a long text."""
_TEXT_ENDS = ("+xml", "+yaml", "ndjson", "jsonl")


def result_of(response: Response, name: str, secrets: tuple[str, ...], settings: Settings) -> Result:
    """`name`: of the tool, for the address of a file. `secrets`, longest first, stand nowhere in it."""
    if response.status >= 400:
        return _failure_of(response, secrets)
    if not response.whole:
        most = f"{settings.call_max_answer_bytes:,} bytes (WAYGRAPH_CALL_MAX_ANSWER_BYTES)"
        return error(f"{response.reason}: the answer has more than {most}, and is left out")
    if not response.content:
        return {"content": [text(response.reason)]}
    if _is_text(response):
        said, parsed = _redact_body(response, secrets)
        content = {"content": [text(said)]}
        return {**content, "structuredContent": parsed} if isinstance(parsed, Mapping) else content
    return {"content": [file_of(_blot_secrets(response.content, secrets), response.media, name)]}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def error(reason: str) -> Result:
    return {"content": [text(reason)], "isError": True}


def _blot_secrets(content: bytes, secrets: tuple[str, ...]) -> bytes:
    """Of the same length, so that what a file says of its own parts stays true."""
    for secret in secrets:
        told = secret.encode("utf-8", "surrogatepass")
        content = content.replace(told, b"*" * len(told))
    return content


def file_of(content: bytes, media: str, name: str) -> dict[str, Any]:
    """An image or a sound as such, anything else as a resource that is in the result itself."""
    encoded = b64encode(content).decode()
    media = media or "application/octet-stream"
    kind = media.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": encoded, "mimeType": media}
    return {"type": "resource", "resource": {"uri": f"waygraph:answer/{name}", "mimeType": media, "blob": encoded}}


def _failure_of(response: Response, secrets: tuple[str, ...]) -> Result:
    said, _ = _redact_body(response, secrets) if _is_text(response) else ("", None)
    more = "…" if len(said) > MOST_ERROR_CHARS or not response.whole else ""
    return error(f"{response.reason}\n\n{said[:MOST_ERROR_CHARS]}{more}".rstrip())


def _redact_body(response: Response, secrets: tuple[str, ...]) -> tuple[str, object]:
    """The text without secrets, and what it holds if it is JSON: as it came, or made anew if anything was struck."""
    given = _decode_body(response)
    said = strike_secrets(given, secrets)
    parsed = _parse_json(given) if _says_json(response) else None
    if parsed is None:
        return said, None
    kept = struck_json(parsed, secrets)  # a parser takes more escapes than one looks for in a text
    unchanged = said == given and kept == parsed
    return (given if unchanged else json.dumps(kept, ensure_ascii=False)), kept


def _parse_json(said: str) -> object:
    try:
        return sendable(json.loads(said))
    except (ValueError, RecursionError):
        return None


def _is_text(response: Response) -> bool:
    media = response.media
    if not media:
        return _is_utf8(response.content)
    return _says_json(response) or media.startswith(_TEXTS) or media.endswith(_TEXT_ENDS)


def _says_json(response: Response) -> bool:
    return is_json(response.media) or (not response.media and response.content.lstrip()[:1] in (b"{", b"["))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_body(response: Response) -> str:
    try:
        charset = codecs.lookup(response.charset).name
        return response.content.decode("utf-8" if charset in _OF_NAMES else charset, "replace")
    except (LookupError, UnicodeError):  # no encoding of texts, or one that takes no such content
        return response.content.decode("utf-8", "replace")
