"""Toolsets: list, look at, set and remove them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen

from waygraph.registry.model.changes import Written
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.validation import MAX_NAMES
from waygraph.registry.operations import answer_shapes
from waygraph.registry.operations.request import Graph, Id, ListRequest, Name, Request, reads, writes
from waygraph.registry.operators import toolset as toolsets
from waygraph.registry.operators.rights import refuse_limited
from waygraph.registry.operators.toolset import MAX_DESCRIPTION_CHARS, Toolset, stated_toolset


@dataclass(frozen=True, kw_only=True)
class ListToolsets(ListRequest[Toolset]):
    """The toolsets that the caller may use, by name, each with what the caller may see of it."""

    operation = reads("toolsets", "/v1/toolsets", answer_shapes.Toolsets)
    listing, noun = "toolsets", Toolset

    def answer(self, graph: Graph, principal: Principal | None) -> list[Toolset]:
        return graph.look(lambda index: toolsets.seen_toolsets(index, principal))


@dataclass(frozen=True, kw_only=True)
class GetToolset(Request[Toolset]):
    """One toolset, if the caller may use it."""

    operation = reads("toolset", "/v1/toolsets/{name}", Toolset)

    name: Id
    """A toolset's name."""

    def answer(self, graph: Graph, principal: Principal | None) -> Toolset:
        return graph.look(lambda index: toolsets.seen_toolset(index, self.name, principal))


@dataclass(frozen=True, kw_only=True)
class SetToolset(Request[Toolset]):
    """Make a toolset, or set it anew: an endpoint of MCP, `/{name}/mcp`, and a filter. What comes later and fits joins.

    It needs a caller who sees everything.
    """

    operation = writes(
        "set_toolset", "PUT", "/v1/toolsets/{name}", Toolset, body="ToolsetRequest", audit=("set", "toolset {name}")
    )

    name: Id
    """A toolset's name."""
    description: Annotated[str, MaxLen(MAX_DESCRIPTION_CHARS)] = ""
    tools: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Tools by id, agent/tool."""
    agents: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Agents by id, with all their tools."""
    tags: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Agents with any of these tags."""
    callers: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    """Groups that may use it. Default: whoever may see anything in it."""

    def stated(self) -> Toolset:
        """Its rule, in order. Raises InvalidSetting."""
        return stated_toolset(**vars(self))

    def audit_details(self) -> Mapping[str, object]:
        return {name: value for name, value in self.sent_fields().items() if name != "name"}

    def answer(self, graph: Graph, principal: Principal | None) -> Toolset:
        refuse_limited(principal, "toolsets are made")
        new = self.stated()
        graph.change_existing(lambda session: toolsets.set_toolset(session, new))
        return graph.look(lambda index: toolsets.seen_toolset(index, new.name, None))


@dataclass(frozen=True, kw_only=True)
class RemoveToolset(Request[Written]):
    """Remove a toolset; its tools stay. It needs a caller who sees everything."""

    operation = writes("remove_toolset", "DELETE", "/v1/toolsets/{name}", Written, audit=("remove", "toolset {name}"))

    name: Id
    """A toolset's name."""

    def answer(self, graph: Graph, principal: Principal | None) -> Written:
        refuse_limited(principal, "toolsets are removed")
        return graph.change_existing(lambda session: toolsets.remove_toolset(session, self.name))
