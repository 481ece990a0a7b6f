"""What every adapter does: finds tools for a conversation, runs them, and turns refusals into texts for a model."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

from waygraph.api.library import AsyncRegistry, LocalRegistry, Registry, RemoteRegistry
from waygraph.registry.catalog.tool_formats import definition
from waygraph.registry.model import errors
from waygraph.registry.model.arguments import json_kind
from waygraph.registry.model.nouns import CallOutcome, Filters, Principal, Query, Tool, Turn
from waygraph.registry.model.tool_calls import ToolResult
from waygraph.registry.model.validation import MAX_NAME_CHARS

MAX_TURNS, MAX_TURN_CHARS, MAX_RESULT_CHARS = 40, 1_000, 200
"""Of a conversation, the latest: what a registry reads of it, within the limits of its settings."""
ABOUT_CALLS = (errors.CallError, errors.UpstreamError, errors.UnknownName, errors.InvalidQuery, errors.AccessError)
"""Errors that a model can read and react to; others go to the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as a model gets it. `name` is unique and `[A-Za-z_][A-Za-z0-9_-]{0,63}`; `parameters` is JSON Schema.

    The description is the source's own, untrusted, and why the tool cannot run here, if it cannot.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class Options(TypedDict, total=False):
    """Of every adapter, each of its own.

    `limit` (5): how many tools a turn gets; those that its conversation called, at most as many, stay beside them.
    `filters` narrow what is found. What runs is decided by the policy and by what `principal` may see and call.
    """

    limit: int
    filters: Filters
    principal: Principal | None


class Toolbox:
    """The tools of a registry, here or at a service, for one agent. Threads and tasks may share one."""

    def __init__(self, registry: Registry | AsyncRegistry, **options: Unpack[Options]) -> None:
        self._async_registry = _awaitable(registry)
        self._registry: Registry = self._async_registry.subject
        self._query = Query(limit=options.get("limit", 5), filters=options.get("filters", Filters()))
        self._principal = options.get("principal")

    def find(self, turns: Sequence[Turn]) -> list[OfferedTool]:
        """Tools for what the last user turn asks, best first; none without one. Raises what `Registry.find` raises."""
        query = self._query_of(turns)
        if query is None:
            return []
        matches = self._registry.find(query, principal=self._principal)
        tools = {each.tool.call_name: _offer(each.tool, each.cannot_run) for each in matches}
        for tool in self._called_tools(turns):
            tools.setdefault(tool.call_name, _offer(tool))
        return list(tools.values())

    async def find_async(self, turns: Sequence[Turn]) -> list[OfferedTool]:
        """As `find`."""
        return await asyncio.to_thread(self.find, turns)

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What the tool gave, cut to the setting `call_result_tokens`.

        A call that is refused, cannot run or fails is a result with `is_error` that says why.
        """
        try:
            return self._registry.call(name, _check_call(name, arguments), for_model=True, principal=self._principal)
        except ABOUT_CALLS as error:
            return _error_result(error)

    async def call_async(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """As `call`. Cancelled, it tells the tool's server."""
        try:
            by_name = _check_call(name, arguments)
            return await self._async_registry.call(name, by_name, for_model=True, principal=self._principal)
        except ABOUT_CALLS as error:
            return _error_result(error)

    def _query_of(self, turns: Sequence[Turn]) -> Query | None:
        """The last user turn; all others are its history, calls since then too."""
        last = max((at for at, turn in enumerate(turns) if turn.role == "user" and turn.text.strip()), default=None)
        if last is None:
            return None
        others = (turn for at, turn in enumerate(turns) if at != last and (turn.role != "call" or _is_name(turn.tool)))
        history = tuple(map(_shorten, others))[-MAX_TURNS:]
        text = turns[last].text[: self._registry.settings.max_query_chars]
        return replace(self._query, text=text, history=history)

    def _called_tools(self, turns: Sequence[Turn]) -> Iterator[Tool]:
        """Those of the conversation's latest calls that the registry has."""
        names = dict.fromkeys(turn.tool for turn in reversed(turns) if turn.role == "call" and _is_name(turn.tool))
        for name in list(names)[: self._query.limit]:
            try:
                tool = self._registry.tool(name, principal=self._principal)
            except errors.UnknownName:
                continue  # a tool of the program's own, or one that is gone
            if not tool.pending:
                yield tool


def _awaitable(registry: object) -> AsyncRegistry:
    match registry:
        case AsyncRegistry():
            return registry
        case LocalRegistry() | RemoteRegistry():
            return AsyncRegistry(registry)
    raise TypeError(f"an adapter takes what `waygraph.Registry.open` returned, not {registry!r}")


def _offer(tool: Tool, cannot_run: str = "") -> OfferedTool:
    function = definition(tool, "openai")["function"]
    description = f"{tool.description}\nCannot run here: {cannot_run}" if cannot_run else tool.description
    return OfferedTool(name=tool.call_name, description=description, parameters=function["parameters"])


def _is_name(name: str) -> bool:
    """Whether a registry takes it as the name of a tool: a model can write anything."""
    return 0 < len(name) <= MAX_NAME_CHARS and name.isprintable()


def _check_call(name: str, arguments: object) -> Mapping[str, Any]:
    """What a model wrote may be any JSON. Raises InvalidArguments, InvalidQuery for what can be no name."""
    if not _is_name(name):
        raise errors.InvalidQuery(f"a tool's name has 1 to {MAX_NAME_CHARS} characters that can be printed")
    if not isinstance(arguments, Mapping):
        raise errors.InvalidArguments(name, [("", f"expected an object, not {json_kind(arguments)}")])
    return arguments


def _shorten(turn: Turn) -> Turn:
    return replace(turn, text=turn.text[:MAX_TURN_CHARS], result=turn.result[:MAX_RESULT_CHARS])


def _error_result(error: errors.WaygraphError) -> ToolResult:
    return ToolResult(content=({"type": "text", "text": str(error)},), is_error=True)


def text_turns(role: Literal["user", "assistant"], text: object) -> Iterator[Turn]:
    """A turn of words, if there are any."""
    if isinstance(text, str) and text.strip():
        yield Turn(role=role, text=text)


def call_turn(tool: str, result: object, *, is_failure: bool = False) -> Turn:
    """A turn of a call that has ended."""
    outcome: CallOutcome = "failed" if is_failure else "ok"
    return Turn(role="call", tool=tool, outcome=outcome, result=str(result))


def missing(framework: str, package: str) -> errors.MissingExtra:
    """The error of an adapter whose framework is not installed: says what to install."""
    return errors.MissingExtra(f"waygraph.adapters.{framework}", package=package)
