"""A call of a tool over one connection, in both eras: what it is sent with, its rounds of questions, its end."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import MCPError
from mcp.client.session import ClientSession
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map
from mcp.types import LOG_LEVEL_META_KEY
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.upstream.callbacks import QUESTIONS
from waygraph.ingest.upstream.connection import Host, NotAnswered, Question, Result
from waygraph.ingest.upstream.inflight import LOG_LEVEL, CallsUnderway, Underway
from waygraph.ingest.upstream.wire import raw_cancel, raw_request
from waygraph.registry.model.errors import UpstreamRefused

MOST_ROUNDS = 10
"""How often a server of the modern era may ask on before it answers."""


_LEVEL_S = 1.0
"""For a server of the handshake era to take a level: a call waits no longer."""


_CANCEL_S = 5.0


_MARKED = "x-mcp-header"


_CAPABILITIES: dict[Question, tuple[str, dict[str, Any]]] = {
    "elicitation/create": ("elicitation", {"form": {}, "url": {}}),
    "sampling/createMessage": ("sampling", {}),
    "roots/list": ("roots", {}),
}


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Of one connection, which has agreed on `version`."""

    session: ClientSession
    version: str
    underway: CallsUnderway
    sets_level: bool = False
    """Whether the server lets its client say, for the whole connection, how loud it is."""

    async def call(self, call: Underway, name: str, arguments: Mapping[str, Any], input_schema: str) -> Result:
        """Raises MCPError, and UpstreamRefused for a question that nobody answers."""
        asked: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        headers = _param_headers(input_schema, arguments) if self._is_modern and _MARKED in input_schema else {}
        if self.sets_level and not self._is_modern:
            await self._set_level()
        result = await self._request(call, asked, headers)
        pause_s = _FIRST_PAUSE_S
        for _ in range(MOST_ROUNDS):
            if not self._is_modern or result.get("resultType") != "input_required":
                await call.await_notices()
                return sendable(result)
            call.has_begun = True
            answers = await _answers(call.host, result.get("inputRequests") or {})
            if not answers:
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            result = await self._request(
                call, {**asked, **_repeat_params(answers, result.get("requestState"))}, headers
            )
        raise UpstreamRefused(f"wants to know still more after {MOST_ROUNDS} rounds of questions")

    async def _request(self, call: Underway, params: Mapping[str, Any], headers: Mapping[str, str]) -> Result:
        call.request_id = None
        meta: dict[str, Any] = {"progressToken": call.token}
        if self._is_modern:
            meta[LOG_LEVEL_META_KEY] = call.host.log_level or LOG_LEVEL
        try:
            return await raw_request(
                self.session,
                "tools/call",
                {**params, "_meta": meta},
                headers=headers,
                capabilities=_capabilities(call.host) if self._is_modern else None,
                cancels=False,
            )
        except anyio.get_cancelled_exc_class():
            self._leave(call)
            raise

    async def _set_level(self) -> None:
        """As loud as the loudest host of a call under way wants it; each hears of it what it asked for."""
        level = self.underway.loudest()
        if level and level != self.underway.level:
            self.underway.level = level
            with anyio.move_on_after(_LEVEL_S), suppress(MCPError):  # a server that will not be told goes on as it was
                await raw_request(self.session, "logging/setLevel", {"level": level}, cancels=False)

    def _leave(self, call: Underway) -> None:
        if call.request_id is not None:
            self.underway.leave(call)
            call.tasks.start_soon(self._cancel, call.request_id)  # in its own time: ours is up

    async def _cancel(self, request_id: int | str) -> None:
        with anyio.move_on_after(_CANCEL_S):
            await raw_cancel(self.session, request_id, "nobody waits for the answer any more")

    @property
    def _is_modern(self) -> bool:
        return self.version in MODERN_PROTOCOL_VERSIONS


def _capabilities(host: Host) -> dict[str, Any]:
    """What this host takes; a server of the modern era reads it from each request."""
    return dict(named for question, named in _CAPABILITIES.items() if host.can(question))


def _repeat_params(answers: Mapping[str, Any], state: object) -> dict[str, Any]:
    """What the request is repeated with: the state byte for byte."""
    return ({"inputResponses": answers} if answers else {}) | ({"requestState": state} if state is not None else {})


async def _answers(host: Host, questions: object) -> dict[str, Any]:
    """One after the other: a person reads one at a time. Raises UpstreamRefused."""
    if not isinstance(questions, Mapping):
        raise UpstreamRefused("its questions are not of the protocol")
    return {key: await _answer(host, question) for key, question in questions.items()}


async def _answer(host: Host, question: object) -> Mapping[str, Any]:
    method = QUESTIONS.get(str(question.get("method"))) if isinstance(question, Mapping) else None
    if not isinstance(question, Mapping) or method is None:
        raise UpstreamRefused("asks what is no question of the protocol")
    if not host.can(method):
        raise UpstreamRefused(f"needs an answer to {method}, which the host of this call does not take")
    try:
        return await host.ask(method, sendable(question.get("params") or {}))
    except NotAnswered as exc:
        raise UpstreamRefused(f"needs an answer to {method}, and got none: {exc}") from None


def _param_headers(input_schema: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The arguments that a server of the modern era wants to see in headers, as its schema says."""
    try:
        schema = json.loads(input_schema)
        if find_invalid_x_mcp_header(schema) is None:
            return mcp_param_headers(x_mcp_header_map(schema), arguments)
    except (ValueError, RecursionError):
        pass
    return {}


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25
"""Before a server that only wants to be asked again is."""
