"""Google's Agent Development Kit: a toolset that holds, at each request to the model, the tools found for it."""

from collections.abc import Iterator
from typing import Any, Unpack

from waygraph.adapters.toolbox import OfferedTool, Options, Toolbox, call_turn, missing, text_turns
from waygraph.api.library import AsyncRegistry, Registry
from waygraph.registry.model.nouns import Turn

try:
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.events import Event
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import FunctionDeclaration
except ImportError as exc:
    raise missing("google_adk", "google-adk") from exc


class RegistryToolset(BaseToolset):
    """`LlmAgent(…, tools=[RegistryToolset(registry)])`; the agent's own tools stay.

    A call gives the model `{"result": text}`; one that is refused, needs a person's consent or fails
    `{"error": text}`. `options`: `Options`.
    """

    def __init__(self, registry: Registry | AsyncRegistry, **options: Unpack[Options]) -> None:
        super().__init__()
        self._use_invocation_cache = False  # what a call gave may ask for another tool
        self._toolbox = Toolbox(registry, **options)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        turns = read_turns(readonly_context.session.events) if readonly_context else []
        return [_RegistryTool(self._toolbox, tool) for tool in await self._toolbox.find_async(turns)]


class _RegistryTool(BaseTool):
    def __init__(self, toolbox: Toolbox, tool: OfferedTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._toolbox, self._parameters = toolbox, tool.parameters

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, str]:
        result = await self._toolbox.call_async(self.name, args)
        return {"error" if result.is_error else "result": result.text}


def read_turns(events: list[Event]) -> list[Turn]:
    """What was said and called, oldest first."""
    return [turn for event in events for turn in _turns(event)]


def _turns(event: Event) -> Iterator[Turn]:
    for part in (event.content.parts if event.content else None) or ():
        if part.text and not part.thought:
            yield from text_turns("user" if event.author == "user" else "assistant", part.text)
        elif part.function_response and part.function_response.name:
            response = part.function_response.response or {}
            yield call_turn(part.function_response.name, response, is_failure="error" in response)
