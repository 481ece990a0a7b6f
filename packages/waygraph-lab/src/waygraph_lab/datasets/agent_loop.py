"""A language model that fulfils tasks with tools: it searches with `find_tools`, and then calls what it found.

The loop of ScaleMCP (Lumer et al., 2025, section 5.2): the tools that a search finds are bound into the model's own
list of tools, and the product's executor runs its calls. With the surface `router` the model has `route` and `execute`
alone, as the gateway lists them: the light routing agent of ToolACE-MCP. With `react` it has all tools in its prompt.
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from waygraph.api.mcp import EXECUTE
from waygraph.api.mcp.meta_tools import FIND_TOOLS, ROUTE, instructions, meta_tools
from waygraph.ingest.execution.call import ToolCall, ToolCaller
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.catalog.tool_formats import definition
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.language_model.messages import after_thoughts
from waygraph.registry.model.arguments import check_arguments
from waygraph.registry.model.errors import CallError, InvalidQuery, LanguageModelError, UpstreamError
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import CallOutcome, Query, Tool, ToolRoute, Turn
from waygraph.registry.registry import Registry
from waygraph_lab.datasets.react import OBSERVATION, Action, react_prompt, read_step
from waygraph_lab.evaluation.agents import AgentCall, AgentTrial, Attempt, Ending, Surface
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.run import NotReranked, require_stages

if TYPE_CHECKING:
    from waygraph.registry.catalog.searchable import Searchable

RESULT_CHARS = 16_000
"""Of a tool's result, as the model reads it."""
_ENDING = "When you have what the request needs, answer in plain text, only with what the tools returned."
SYSTEM = (
    "Fulfil the user's request with tools. Call find_tools to search for tools; from then on you can call the tools "
    f"that it found by their names. Search again for what is still missing. {_ENDING}"
)
_SEARCH: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": FIND_TOOLS,
        "description": "Search for tools by what they should do. The tools found can be called afterwards.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What you want to do"}},
            "required": ["query"],
        },
    },
}


def meta_functions(surface: Surface) -> list[Mapping[str, Any]]:
    """What the model has before it found anything, as OpenAI lists functions."""
    if surface == "react":
        return []
    if surface == "default":
        return [_SEARCH]
    return [
        {
            "type": "function",
            "function": {name: tool[field] for name, field in _FUNCTION.items()},
        }
        for tool in meta_tools(surface)
    ]


_FUNCTION: Mapping[str, str] = {"name": "name", "description": "description", "parameters": "inputSchema"}


_SEARCH_BY: Mapping[Surface, str] = {"default": FIND_TOOLS, "router": ROUTE}


class BadRequest(Exception):
    """A call that is none: its message tells the model why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoop:
    """Where a model's tasks run. Several tasks may run at once."""

    registry: Registry
    caller: ToolCaller
    model: ChatModel
    trial: AgentTrial

    async def attempt(self, task: Asked) -> Attempt:
        """The task, without a judgement.

        It ends as `failed` if the model does not answer, or if the recipe's walk or reranker fails in a search: what is
        found without them is no measure of them.
        """
        kind = ReActConversation if self.trial.surface == "react" else Conversation
        began, talk = time.perf_counter(), kind(loop=self, task=task)
        ending: Ending
        try:
            ending, fault = await talk.run(), ""
        except (LanguageModelError, NotReranked) as error:
            ending, fault = "failed", error.reason if isinstance(error, NotReranked) else str(error)
        return Attempt(
            id=task.id,
            text=talk.text,
            gold_tools=task.gold_tools,
            calls=tuple(talk.calls),
            answer=talk.answer,
            ending=ending,
            fault=fault,
            turns=talk.turns,
            searches=talk.searches,
            prompt_tokens=talk.prompt_tokens,
            completion_tokens=talk.completion_tokens,
            seconds=time.perf_counter() - began,
        )


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One task: its messages, the tools bound so far by the names that the model calls, and what it came to."""

    loop: AgentLoop
    task: Asked
    messages: list[Mapping[str, Any]] = field(init=False)
    bound: dict[str, Tool] = field(default_factory=dict)
    calls: list[AgentCall] = field(default_factory=list)
    history: list[Turn] = field(default_factory=list)
    """Calls that were made, by tool and outcome, as a session of the gateway knows them."""
    answer: str = ""
    turns: int = 0
    searches: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __post_init__(self) -> None:
        system = SYSTEM if self.surface == "default" else f"{instructions('router')} {_ENDING}"
        self.messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": replace_surrogates(self.text)},
        ]

    @property
    def surface(self) -> Surface:
        return self.loop.trial.surface

    @property
    def text(self) -> str:
        return "\n".join(self.task.texts)

    async def run(self) -> Ending:
        """Raises LanguageModelError, NotReranked."""
        while self.turns < self.loop.trial.turns:
            message = await self._next_message()
            requests = message.get("tool_calls")
            if not isinstance(requests, list) or not requests:
                content = message.get("content")
                self.answer = content if isinstance(content, str) else ""
                return "answered"
            kept = {name: message[name] for name in ("content", "tool_calls") if name in message}
            self.messages.append({"role": "assistant", "content": None} | kept)
            for request in requests:
                self.messages.append(await self._result_message(request))
        return "out of turns"

    async def _next_message(self) -> Mapping[str, Any]:
        bound = self.bound.values() if self.surface == "default" else ()
        tools = [*meta_functions(self.surface), *(definition(tool, "openai") for tool in bound)]
        ask = partial(self.loop.model.complete, temperature=self.loop.trial.temperature)
        completion = await to_thread.run_sync(ask, self.messages, tools)
        self.turns += 1
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        return completion.message

    async def _result_message(self, request: object) -> Mapping[str, Any]:
        name, text, call_id = _parts(request)
        if name == (FIND_TOOLS if self.surface == "default" else ROUTE):
            result = await self._search(text)
        elif name == EXECUTE and self.surface == "router":
            result = await self._execute(text)
        else:
            result = await self._call(name, text)
        return {"role": "tool", "tool_call_id": call_id, "content": replace_surrogates(result[:RESULT_CHARS])}

    async def _search(self, text: str) -> str:
        """Raises NotReranked."""
        self.searches += 1
        try:
            return await to_thread.run_sync(self._find, _arguments(text))
        except (BadRequest, InvalidQuery) as fault:
            return f"Error: {fault}"

    def _find(self, arguments: Mapping[str, Any]) -> str:
        """Binds what is found. Raises BadRequest, InvalidQuery, NotReranked."""
        query = arguments.get("query")
        if not isinstance(query, str):
            raise BadRequest("a search needs a query, which is a text")
        trial, registry = self.loop.trial, self.loop.registry
        request = FindAsked(query=query, limit=trial.limit, recipe=trial.recipe, run_by="")
        if self.surface == "router":
            request = replace(request, detail="schema", run_by=EXECUTE, history=tuple(self.history))
        answer = find(cast("Searchable", WholeSearch(registry, self.task.id)), request)
        tools = answer.get("tools", [])
        found = {entry["name"]: registry.tool(entry["name"]) for entry in tools}
        if self.surface == "router":
            tools = sorted(tools, key=lambda entry: self._fails(found[entry["name"]]))[:1]
        self.bound |= {entry["name"]: found[entry["name"]] for entry in tools}
        if self.surface == "router" and tools:
            agent_id = self.bound[tools[0]["name"]].agent_id
            facts = {name: value for name, value in answer.items() if name != "tools"}
            answer = {"tool": {"name": tools[0]["name"], "agent": agent_id} | tools[0]} | facts
        return json.dumps(answer, ensure_ascii=False)

    def _fails(self, tool: Tool) -> bool:
        """Whether its last two calls failed: then the gateway's router returns the best other one."""
        return [turn.outcome for turn in self.history if turn.tool == tool.id][-2:] == ["failed", "failed"]

    async def _execute(self, text: str) -> str:
        try:
            arguments = _arguments(text)
        except BadRequest as fault:
            return self._note(EXECUTE, {}, f"Error: {fault}")
        return await self._call(str(arguments.get("name", "")), json.dumps(arguments.get("params")))

    async def _call(self, name: str, text: str) -> str:
        """What the model is told of its call, which is noted."""
        tool = self.bound.get(name)
        try:
            arguments = _arguments(text)
        except BadRequest as fault:
            return self._note(name, {}, f"Error: {fault}")
        if tool is None:
            advice = f"; search with {_SEARCH_BY[self.surface]} first" if self.surface in _SEARCH_BY else ""
            return self._note(name, arguments, f"Error: no tool {name!r} was found{advice}")
        call = AgentCall(tool=tool.id, arguments=arguments, result="", is_correct=False)
        try:
            check_arguments(tool, arguments)
            is_correct = any(tool.id in item for item in self.task.gold_tools) and not self._is_repeat(call)
            call = replace(call, is_correct=is_correct)
            call = replace(call, result=await self._run(tool, arguments))
        except (CallError, UpstreamError) as fault:
            call = replace(call, result=f"Error: {fault}")
        self.calls.append(call)
        outcome: CallOutcome = "failed" if call.result.startswith("Error: ") else "ok"
        self.history.append(Turn(role="call", tool=tool.id, outcome=outcome))
        return call.result

    async def _run(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Raises CallError, UpstreamError."""
        registry = self.loop.registry
        call = ToolCall(
            agent=registry.agent(tool.agent_id),
            tool=tool,
            arguments=arguments,
            deadline_s=registry.settings.call_timeout_s,
        )
        result = await self.loop.caller.call(call)
        text = "\n".join(_texts(result.get("content")))
        return f"Error: {text}" if result.get("isError") is True else text

    def _is_repeat(self, call: AgentCall) -> bool:
        return any((each.tool, each.arguments) == (call.tool, call.arguments) for each in self.calls)

    def _note(self, name: str, arguments: Mapping[str, Any], result: str) -> str:
        self.calls.append(AgentCall(tool=name, arguments=arguments, result=result, is_correct=False))
        return result


class ReActConversation(Conversation):
    """The same task, by thoughts and actions in plain text over all tools of the registry."""

    def __post_init__(self) -> None:
        self.bound = {tool.call_name: tool for tool in self.loop.registry.tools()}
        functions = (definition(tool, "openai")["function"] for tool in self.bound.values())
        self.messages = [
            {"role": "system", "content": replace_surrogates(react_prompt(functions))},
            {"role": "user", "content": replace_surrogates(self.text)},
        ]

    async def run(self) -> Ending:
        """Raises LanguageModelError."""
        while self.turns < self.loop.trial.turns:
            message = await self._next_message()
            content = message.get("content")
            step = read_step(after_thoughts(content) if isinstance(content, str) else "")
            if not isinstance(step, Action):
                self.answer = step
                return "answered"
            result = await self._call(step.tool, step.arguments)
            observation = OBSERVATION + replace_surrogates(result[:RESULT_CHARS])
            self.messages += [{"role": "assistant", "content": step.text}, {"role": "user", "content": observation}]
        return "out of turns"


class WholeSearch:
    """A registry whose answers are those of all stages of a recipe, or none. `name`: of who asks, for the error."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry, self._name = registry, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def find_tools(self, query: Query, **options: Any) -> ToolRoute:
        """Raises NotReranked."""
        return require_stages(self._registry.find_tools(query, **options), self._name)


def _parts(request: object) -> tuple[str, str, str]:
    """Name, arguments and id of a call, each empty where the model said something else."""
    request = request if isinstance(request, Mapping) else {}
    function = request.get("function")
    function = function if isinstance(function, Mapping) else {}
    values = (function.get("name"), function.get("arguments"), request.get("id"))
    name, text, call_id = (value if isinstance(value, str) else "" for value in values)
    return name, text, call_id


def _arguments(text: str) -> dict[str, Any]:
    """Raises BadRequest."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise BadRequest("the arguments are no JSON object")
    return arguments


def _texts(content: object) -> Iterator[str]:
    """The texts of a result; of anything else its kind."""
    for part in content if isinstance(content, list) else ():
        yield part["text"] if part.get("type") == "text" else f"[{part.get('type')}]"
