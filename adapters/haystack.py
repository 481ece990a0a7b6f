"""Haystack: a toolset whose tool `find_tools` adds what a registry finds to the agent's tools, as SearchableToolset."""

import copy
import json
from collections.abc import Iterator
from threading import Lock
from typing import Annotated, Any, Unpack

from waygraph.adapters.toolbox import OfferedTool, Options, Toolbox, call_turn, missing, text_turns
from waygraph.api.library import AsyncRegistry, Registry
from waygraph.registry.model.nouns import Turn

try:
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool, Toolset, create_tool_from_function
except ImportError as exc:
    raise missing("haystack", "haystack-ai") from exc


class ToolRefused(Exception):
    """A call that was refused or failed; Haystack makes a failed tool result of it."""


class RegistryToolset(Toolset):
    """`Agent(chat_generator=…, tools=RegistryToolset(registry))`.

    An agent of Haystack does not show its tools the conversation before each step, so its model asks for tools, and has
    them from the next step of the run on. `options`: `Options`.
    """

    tools: list[Tool]

    def __init__(self, registry: Registry | AsyncRegistry, **options: Unpack[Options]) -> None:
        self._toolbox, self._lock = Toolbox(registry, **options), Lock()
        super().__init__(tools=[self._finder()])

    def spawn(self, selected_tool_names: set[str] | None = None) -> "RegistryToolset":
        """A copy for one run, which begins with `find_tools` alone."""
        run = copy.copy(self)
        run.tools = [run._finder()]
        return run

    def to_dict(self) -> dict[str, Any]:
        raise TypeError("a toolset over an open registry cannot be written as YAML: make it in the program")

    def _finder(self) -> Tool:
        def find_tools(
            query: Annotated[str, "What you want to do, in words"], messages: list[ChatMessage] | None = None
        ) -> str:
            """Find tools for one thing that you want to do. The tools found can be called from your next step on."""
            history = [turn for message in messages or () for turn in _turns(message)]
            tools = self._toolbox.find([*history, *text_turns("user", query)])
            names = [tool.name for tool in tools]
            with self._lock:  # calls of one step run side by side
                others = [tool for tool in self.tools if tool.name not in names]
                self.tools = [*others, *(_registry_tool(self._toolbox, tool) for tool in tools)]
            return f"You can call now: {', '.join(names)}" if names else "No tool fits."

        return create_tool_from_function(find_tools, inputs_from_state={"messages": "messages"})


def _registry_tool(toolbox: Toolbox, tool: OfferedTool) -> Tool:
    def call(**arguments: Any) -> str:
        result = toolbox.call(tool.name, arguments)
        if result.is_error:
            raise ToolRefused(result.text)
        return result.text

    try:
        return Tool(name=tool.name, description=tool.description, parameters=tool.parameters, function=call)
    except ValueError:  # a schema that is none by the draft of 2020, by which Haystack judges
        description = f"{tool.description}\nParameters: {json.dumps(tool.parameters)}"
        return Tool(name=tool.name, description=description, parameters={"type": "object"}, function=call)


def _turns(message: ChatMessage) -> Iterator[Turn]:
    if message.is_from("user") or message.is_from("assistant"):
        yield from text_turns("user" if message.is_from("user") else "assistant", message.text)
    for result in message.tool_call_results:
        yield call_turn(result.origin.tool_name, result.result, is_failure=result.error)
