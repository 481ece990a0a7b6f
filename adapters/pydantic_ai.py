"""Pydantic AI: a toolset that holds, at each step of a run, the tools which a registry finds for it."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from waygraph.adapters.toolbox import Options, Toolbox, call_turn, missing, text_turns
from waygraph.api.library import AsyncRegistry, Registry
from waygraph.registry.model.nouns import Turn

try:
    from pydantic_ai import BinaryContent, RunContext, ToolDefinition
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelMessage, TextPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as exc:
    raise missing("pydantic_ai", "'pydantic-ai-slim>=2'") from exc

ANY_ARGUMENTS = SchemaValidator(core_schema.any_schema())
"""The registry checks them."""


class RegistryToolset(AbstractToolset[Any]):
    """`Agent(model, toolsets=[RegistryToolset(registry)])`.

    A call that is refused, needs a person's consent or fails is a failed tool return. `id`: as of any
    toolset. `options`: `Options`.
    """

    def __init__(
        self,
        registry: Registry | AsyncRegistry,
        *,
        id: str | None = None,  # noqa: A002 - the framework's name for it
        **options: Unpack[Options],
    ) -> None:
        self._toolbox, self._id = Toolbox(registry, **options), id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools = await self._toolbox.find_async(read_turns(ctx))
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
                ),
                max_retries=0,
                args_validator=ANY_ARGUMENTS,
            )
            for tool in tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        result = await self._toolbox.call_async(name, tool_args)
        text = result.text
        if result.is_error:
            raise ToolFailed(text)
        images = [
            BinaryContent(base64.b64decode(block["data"]), media_type=block["mimeType"])
            for block in result.content
            if block.get("type") == "image"
        ]
        return [text, *images] if images else text


def read_turns(ctx: RunContext[Any]) -> list[Turn]:
    """What was said and called, oldest first."""
    return [turn for message in ctx.messages for turn in _turns(message)]


def _turns(message: ModelMessage) -> Iterator[Turn]:
    for part in message.parts:
        match part:
            case UserPromptPart():
                yield from text_turns("user", _words(part.content))
            case TextPart():
                yield from text_turns("assistant", part.content)
            case ToolReturnPart():
                yield call_turn(part.tool_name, part.content, is_failure=part.outcome != "success")


def _words(content: str | Sequence[Any]) -> str:
    """Of a prompt its texts; it may hold pictures too."""
    parts = [content] if isinstance(content, str) else content
    return "\n".join(part for part in parts if isinstance(part, str))
