"""LangChain and LangGraph: a middleware that gives each step of an agent the tools which a registry finds for it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Unpack

from waygraph.adapters.toolbox import OfferedTool, Options, Toolbox, call_turn, missing, text_turns
from waygraph.api.library import AsyncRegistry, Registry
from waygraph.registry.model.nouns import Turn
from waygraph.registry.model.tool_calls import ToolResult

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ToolCallRequest
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
except ImportError as exc:
    raise missing("langchain", "'langchain>=1'") from exc


class RegistryMiddleware(AgentMiddleware):
    """`create_agent(model, middleware=[RegistryMiddleware(registry)])`; the agent's own tools stay, and come first.

    Before each request to the model it adds the tools that fit the conversation, with their schemas. A call that is
    refused, needs a person's consent or fails comes back as a tool message of status `error`. `options`: `Options`.
    """

    def __init__(self, registry: Registry | AsyncRegistry, **options: Unpack[Options]) -> None:
        super().__init__()
        self._toolbox = Toolbox(registry, **options)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        return handler(_with_tools(request, self._toolbox.find(read_turns(request.messages))))

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
        return await handler(_with_tools(request, await self._toolbox.find_async(read_turns(request.messages))))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        if request.tool is not None:  # the agent's own
            return handler(request)
        call = request.tool_call
        return _message(request, self._toolbox.call(call["name"], call["args"]))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        if request.tool is not None:
            return await handler(request)
        call = request.tool_call
        return _message(request, await self._toolbox.call_async(call["name"], call["args"]))


def read_turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """What was said and called, oldest first."""
    return [turn for message in messages for turn in _turns(message)]


def _turns(message: BaseMessage) -> Iterator[Turn]:
    match message:
        case HumanMessage():
            yield from text_turns("user", message.text)
        case AIMessage():
            yield from text_turns("assistant", message.text)
        case ToolMessage() if message.name:
            yield call_turn(message.name, message.text, is_failure=message.status == "error")


def _with_tools(request: ModelRequest, tools: Sequence[OfferedTool]) -> ModelRequest:
    # Some that the model's provider runs have no name.
    own = {tool.get("function", tool).get("name") if isinstance(tool, dict) else tool.name for tool in request.tools}
    return request.override(tools=[*request.tools, *(_definition(tool) for tool in tools if tool.name not in own)])


def _definition(tool: OfferedTool) -> dict[str, Any]:
    """A dict, which models take as it is: a tool of LangChain would be run by the agent, not by the registry."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _message(request: ToolCallRequest, result: ToolResult) -> ToolMessage:
    """With images as LangChain has them for every provider."""
    images = [
        {"type": "image", "base64": block["data"], "mime_type": block["mimeType"]}
        for block in result.content
        if block.get("type") == "image"
    ]
    text = result.text
    return ToolMessage(
        content=[{"type": "text", "text": text}, *images] if images else text,
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status="error" if result.is_error else "success",
    )
