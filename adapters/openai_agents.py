"""OpenAI Agents SDK: a server in the SDK's sense, whose tools a registry finds for the input of each run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from waygraph.adapters.toolbox import Options, Toolbox, call_turn, missing, text_turns
from waygraph.api.library import AsyncRegistry, Registry
from waygraph.registry.model.nouns import Turn

try:
    from agents import AgentBase, RunContextWrapper
    from agents.mcp import MCPServer
    from mcp.types import CallToolResult, GetPromptResult, ListPromptsResult
    from mcp.types import Tool as ServerTool
except ImportError as exc:
    raise missing("openai_agents", "openai-agents") from exc


class RegistryServer(MCPServer):
    """`Agent(name=…, mcp_servers=[RegistryServer(registry)])`: the SDK asks such servers for their tools at each turn.

    Nothing is started and nothing is to be connected. A call that is refused, needs a person's consent or fails comes
    back as a text that begins with `Error:`. `options`: `Options`.
    """

    def __init__(self, registry: Registry | AsyncRegistry, **options: Unpack[Options]) -> None:
        super().__init__()
        self._toolbox = Toolbox(registry, **options)

    @property
    def name(self) -> str:
        return "waygraph"

    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: AgentBase | None = None
    ) -> list[ServerTool]:
        tools = await self._toolbox.find_async(read_turns(run_context.turn_input) if run_context else [])
        return [
            ServerTool.model_validate(
                {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
            )
            for tool in tools
        ]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        result = await self._toolbox.call_async(tool_name, arguments or {})
        content: Sequence[Mapping[str, Any]] = result.content
        if result.is_error:  # the SDK shows its model the content alone
            content = [{"type": "text", "text": f"Error: {result.text}"}]
        elif not content:
            content = [{"type": "text", "text": result.text}]
        return CallToolResult.model_validate({"content": list(content), "isError": result.is_error})

    async def connect(self) -> None:
        """The registry is open already."""

    async def cleanup(self) -> None:
        """Whoever opened the registry closes it."""

    async def list_prompts(self) -> ListPromptsResult:
        return ListPromptsResult(prompts=[])

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        raise KeyError(f"prompt {name!r} is not known: a registry has none")


def read_turns(items: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """What was said and called, oldest first: of the items of the responses API."""
    names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
    return [turn for item in items for turn in _turns(item, names)]


def _turns(item: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Turn]:
    match item:
        case {"role": "user" | "assistant" as role, "content": content}:
            yield from text_turns(role, _words(content))
        case {"type": "function_call_output", "call_id": call_id, "output": output} if call_id in names:
            text = _words(output)
            yield call_turn(names[call_id], text, is_failure=text.startswith("Error:"))


def _words(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)
