"""What an MCP server offers, as it said it: unchecked, bounded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerListing:
    """One whole listing. `tools` are the wire's own objects, in the server's order: a bad one costs only itself."""

    name: str = ""
    title: str = ""
    version: str = ""
    instructions: str = ""
    protocol: str = ""
    """The protocol version that was agreed."""
    tools: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    prompts: int = 0
    resources: int = 0
    resource_templates: int = 0
    lasts_s: float | None = None
    """For how long the server says that it holds (`ttlMs`); None: not said."""
    notifies: bool = False
    """Whether the server tells of changes by itself."""
