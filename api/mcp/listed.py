"""What is listed at a revision: by this hosts are told of changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.api.mcp.gateway import Asker
from waygraph.api.mcp.listing import pinned_tools
from waygraph.api.mcp.session import Session
from waygraph.registry.access import LOCAL
from waygraph.registry.errors import RegistryNotFound

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Discovery


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed at a revision, for somebody who sees everything: call names and content hashes."""

    stamp: str
    tools: Sequence[tuple[str, str]]

    @classmethod
    def first(cls, discovery: "Discovery") -> "Listed":
        """Raises WaygraphError; a registry that is not there yet lists nothing."""
        try:
            return cls.now(discovery, None)
        except RegistryNotFound:
            return cls("", ())

    @classmethod
    def now(cls, discovery: "Discovery", before: "Listed | None") -> "Listed":
        """Raises WaygraphError."""
        stamp = discovery.registry.stamp
        if before and stamp == before.stamp:
            return before
        everything = Asker(caller=LOCAL, session=Session())
        return cls(stamp, tuple((tool.call_name, tool.content_hash) for tool in pinned_tools(discovery, everything)))
