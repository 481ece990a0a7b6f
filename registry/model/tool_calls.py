"""What a program that calls tools gets: ranked tools, each with what stands against a call, and a tool's result."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, overload

from waygraph.registry.model.nouns import Tool, ToolMatch, ToolRoute


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTool(ToolMatch):
    cannot_run: str = ""
    """Why a call is refused here, or nothing here runs it; empty: a call can be tried."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self.tool.parameters


@dataclass(frozen=True, slots=True)
class RankedTools(Sequence[RankedTool]):
    """The tools that fit a request, best first. `route` says what else is known: `confidence`, `reason`, `notice`."""

    tools: tuple[RankedTool, ...]
    route: ToolRoute

    def __len__(self) -> int:
        return len(self.tools)

    @overload
    def __getitem__(self, index: int) -> RankedTool: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[RankedTool, ...]: ...

    def __getitem__(self, index: int | slice) -> RankedTool | tuple[RankedTool, ...]:
        return self.tools[index]


type ToolName = str | Tool | ToolMatch
"""A tool to call: its id or call name, or itself."""


def name_of(tool: ToolName) -> str:
    match tool:
        case ToolMatch():
            return tool.tool.id
        case Tool():
            return tool.id
    return tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool gave, as MCP has it: blocks of `content`, and what its output schema promises.

    `is_error`: the tool ran, and reports that it failed. `meta`: MCP's `_meta`, in which `waygraph/mended` says which
    arguments were read as another type than they were given as.
    """

    content: tuple[Mapping[str, Any], ...] = ()
    structured_content: Mapping[str, Any] | None = None
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Of the JSON of a `CallToolResult`. A block without what its type needs stands as JSON in a text.

        Raises AttributeError for what is no object.
        """
        content = document.get("content") or []
        return cls(
            content=tuple(map(_block, content if isinstance(content, list) else [content])),
            structured_content=document.get("structuredContent"),
            is_error=document.get("isError") is True,
            meta=meta if isinstance(meta := document.get("_meta"), Mapping) else {},
        )

    @property
    def text(self) -> str:
        """Its texts, those of resources among them, else its structured content; a line names each other block."""
        if not self.content and self.structured_content is not None:
            return json.dumps(self.structured_content, ensure_ascii=False)
        return "\n".join(map(_line, self.content))


def _line(block: Mapping[str, Any]) -> str:
    resource = block.get("resource") or block
    words = resource.get("text")
    name = f"{block.get('type')} {resource.get('uri') or resource.get('mimeType', '')}".rstrip()
    return words if isinstance(words, str) else f"[{name}]"


_BLOCK_FIELDS: Mapping[object, Mapping[str, type]] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str},
    "resource": {"resource": Mapping},
}
"""Type of a block → its fields. Other types may come with later versions of MCP, and stay as they are."""


def _block(block: object) -> Mapping[str, Any]:
    if isinstance(block, Mapping) and isinstance(kind := block.get("type"), str):
        fields = _BLOCK_FIELDS.get(kind, {})
        is_whole = all(isinstance(block.get(name), each) for name, each in fields.items())
        if is_whole and ("data" not in fields or _is_base64(block["data"])):
            return block
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True
