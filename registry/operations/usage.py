"""What was called and asked: usage by tool, by day or by name, and what was looked for in vain."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, MaxLen

from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.usage import (
    MAX_DAYS,
    SearchGaps,
    Sort,
    ToolUsage,
    UsageBy,
    UsageOf,
    UsagePart,
    check_days,
    check_usage,
)
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_PART
from waygraph.registry.operations import answer_shapes
from waygraph.registry.operations.request import Graph, ListRequest, Operation, Request


@dataclass(frozen=True, kw_only=True)
class ListUsage(ListRequest[ToolUsage]):
    """Calls, errors and latencies by tool, since they are counted. It needs the scope `admin` and a caller who sees
    everything.
    """

    operation = Operation("usage", "GET", "/v1/usage", "admin", "admin", answer_shapes.Usage, whole="usage")
    listing, noun = "usage", ToolUsage

    agent: Annotated[str, MaxLen(MAX_ID_CHARS)] = ""
    """Only the tools of this agent."""
    sort: Sort = "calls"
    """What the tools with the most of come first."""
    limit: Annotated[int, Ge(1), Le(MAX_PART)] = 100
    """How many to give at most."""

    def __post_init__(self) -> None:
        check_usage(self.sort, self.limit)

    def answer(self, graph: Graph, principal: Principal | None) -> list[ToolUsage]:
        return graph.usage(agent_id=self.agent, sort=self.sort, limit=self.limit, principal=principal)


@dataclass(frozen=True, kw_only=True)
class ListUsageDays(ListRequest[UsagePart]):
    """Calls, errors and latencies by day, tool or caller; and requests, with those that found nothing. It needs the
    scope `admin` and a caller who sees everything.
    """

    operation = Operation(
        "usage_days", "GET", "/v1/usage/days", "admin", "admin", answer_shapes.UsageDays, whole="usage"
    )
    listing, noun = "usage", UsagePart

    of: UsageOf = "tool"
    """Calls by tool or by caller, or requests by caller."""
    by: UsageBy = "day"
    """A part for each day, or for each tool or caller."""
    name: Annotated[str, MaxLen(MAX_ID_CHARS * 2)] = ""
    """Only of this tool or caller, by id."""
    days: Annotated[int, Ge(1), Le(MAX_DAYS)] = 30
    """So many days, today included."""

    def __post_init__(self) -> None:
        check_days(self.of, self.by, self.days)

    def answer(self, graph: Graph, principal: Principal | None) -> list[UsagePart]:
        return graph.usage_days(of=self.of, by=self.by, name=self.name, days=self.days)


@dataclass(frozen=True, kw_only=True)
class GetSearchGaps(Request[SearchGaps]):
    """The last requests that found nothing, if their texts are kept; and words of requests that no text of the
    registry held. It needs the scope `admin` and a caller who sees everything.
    """

    operation = Operation("search_gaps", "GET", "/v1/usage/gaps", "admin", "admin", SearchGaps, whole="usage")

    def answer(self, graph: Graph, principal: Principal | None) -> SearchGaps:
        return graph.search_gaps()
