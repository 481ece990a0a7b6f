"""What an operator looks after: the keys of callers, and what was called and asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Annotated, get_args

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

from waygraph.registry.access.authenticator import key_file
from waygraph.registry.access.visibility import SCOPES, Scope
from waygraph.registry.index.names import agent_named, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model import usage
from waygraph.registry.model.changes import KeySummary, NewKey
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.validation import MAX_ID_CHARS, MAX_NAME_CHARS, MAX_NAMES, MAX_PART
from waygraph.registry.operations.request import Graph, ListRequest, Name, Operation, Request


@dataclass(frozen=True, kw_only=True)
class ListKeys(ListRequest[KeySummary]):
    """The API keys, ended ones too, oldest first. It needs the scope `admin` and a caller who sees everything."""

    operation = Operation("keys", "GET", "/v1/keys", "admin", "admin", "Keys", whole="the list of keys")
    listing, noun = "keys", KeySummary

    def answer(self, graph: Graph, principal: Principal | None) -> list[KeySummary]:
        file = key_file(graph.settings)
        return list(map(file.summary, file.list()))


@dataclass(frozen=True, kw_only=True)
class CreateKey(Request[NewKey]):
    """Make a key. Its text is told this once. It has no scope that the caller lacks, and ends no later than the
    caller's own key, or within 90 days where the caller shows a token; it needs a caller who sees everything.
    """

    operation = Operation(
        "create_key", "POST", "/v1/keys", "admin", "admin", NewKey,
        is_write=True, whole="to make keys", body="KeyRequest", audit=("set", "key {name}"),
    )  # fmt: skip

    name: Name
    """Who will hold it, for lists and logs."""
    scopes: Annotated[Sequence[Scope], MinLen(1), MaxLen(len(SCOPES))]
    """What it may do."""
    groups: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    everything: bool = False
    toolset: Annotated[str, MaxLen(MAX_NAME_CHARS)] = ""
    """It reaches the endpoint /NAME/mcp of this toolset alone."""
    expires_in_days: Annotated[float, Gt(0), Le(36_500)] | None = None
    """null: it does not end by itself."""

    def answer(self, graph: Graph, principal: Principal | None) -> NewKey:
        file, days = key_file(graph.settings), self.expires_in_days
        key, text = file.create(
            self.name,
            self.scopes,
            self.groups,
            everything=self.everything,
            toolset=self.toolset,
            expires_in=None if days is None else timedelta(days=days),
        )
        return file.new_key(key, text)


@dataclass(frozen=True, kw_only=True)
class RevokeKey(Request[KeySummary]):
    """End a key now, and the logins at servers that its holder made. It needs a caller who sees everything."""

    operation = Operation(
        "revoke_key", "DELETE", "/v1/keys/{key_id}", "admin", "admin", KeySummary,
        is_write=True, whole="to revoke keys", audit=("remove", "key {key_id}"),
    )  # fmt: skip

    key_id: Annotated[str, MaxLen(64)]
    """As the list of keys has it."""

    def answer(self, graph: Graph, principal: Principal | None) -> KeySummary:
        file = key_file(graph.settings)
        return file.summary(file.revoke(self.key_id))


@dataclass(frozen=True, kw_only=True)
class ListUsage(ListRequest[usage.ToolUsage]):
    """Calls, errors and latencies by tool and door, since they are counted. It needs the scope `admin` and a caller
    who sees everything.
    """

    operation = Operation("usage", "GET", "/v1/usage", "admin", "admin", "Usage", whole="usage")
    listing, noun = "usage", usage.ToolUsage

    agent: Annotated[str, MaxLen(MAX_ID_CHARS)] = ""
    """Only the tools of this agent."""
    sort: usage.Sort = "calls"
    """What the tools with the most of come first."""
    limit: Annotated[int, Ge(1), Le(MAX_PART)] = 100
    """How many to give at most."""
    days: Annotated[int, Ge(0), Le(usage.MAX_DAYS)] = 0
    """Only of so many days, today included; 0: all."""

    def __post_init__(self) -> None:
        if not 0 <= self.days <= usage.MAX_DAYS:
            raise InvalidQuery(f"days: expected 0 to {usage.MAX_DAYS}, not {self.days}")
        if self.sort not in get_args(usage.Sort):
            raise InvalidQuery(f"usage is sorted by {', '.join(get_args(usage.Sort))}, not by {self.sort!r}")
        if not 1 <= self.limit <= MAX_PART:
            raise InvalidQuery(f"limit: expected 1 to {MAX_PART}, not {self.limit}")

    def answer(self, graph: Graph, principal: Principal | None) -> list[usage.ToolUsage]:
        """Of the tools that are in the registry now. Raises UnknownName, RegistryNotFound, StorageFailed."""

        def held_tools(index: SearchIndex) -> set[str]:
            agents = [agent_named(index, self.agent, principal)] if self.agent else visible_agents(index, principal)
            return set(chain.from_iterable(index.tool_ids_of([agent.id for agent in agents]).values()))

        tool_ids = graph.look(held_tools)
        counts = (each for each in graph.usage_counts("tool", self.days) if each.target in tool_ids)
        return usage.summarize(counts, self.sort, self.limit)


@dataclass(frozen=True, kw_only=True)
class ListUsageDays(ListRequest[usage.UsagePart]):
    """Calls, errors and latencies by day, tool or caller; and requests, with those that found nothing. It needs the
    scope `admin` and a caller who sees everything.
    """

    operation = Operation("usage_days", "GET", "/v1/usage/days", "admin", "admin", "UsageDays", whole="usage")
    listing, noun = "usage", usage.UsagePart

    of: usage.UsageOf = "tool"
    """Calls by tool or by caller, or requests by caller."""
    by: usage.UsageBy = "day"
    """A part for each day, or for each tool or caller."""
    name: Annotated[str, MaxLen(MAX_ID_CHARS * 2)] = ""
    """Only of this tool or caller, by id."""
    days: Annotated[int, Ge(1), Le(usage.MAX_DAYS)] = 30
    """So many days, today included."""

    def __post_init__(self) -> None:
        ofs, bys = get_args(usage.UsageOf), get_args(usage.UsageBy)
        if self.of not in ofs or self.by not in bys:
            raise InvalidQuery(f"usage is of {', '.join(ofs)}, by {' or '.join(bys)}")
        if not 1 <= self.days <= usage.MAX_DAYS:
            raise InvalidQuery(f"days: expected 1 to {usage.MAX_DAYS}, not {self.days}")

    def answer(self, graph: Graph, principal: Principal | None) -> list[usage.UsagePart]:
        counts = (each for each in graph.usage_counts(self.of, self.days) if self.name in ("", each.target))
        return usage.usage_parts(counts, self.by, self.name)


@dataclass(frozen=True, kw_only=True)
class GetSearchGaps(Request[usage.SearchGaps]):
    """The last requests that found nothing, if their texts are kept. It needs the scope `admin` and a caller who sees
    everything.
    """

    operation = Operation("search_gaps", "GET", "/v1/usage/gaps", "admin", "admin", usage.SearchGaps, whole="usage")

    def answer(self, graph: Graph, principal: Principal | None) -> usage.SearchGaps:
        keeps_texts = graph.settings.usage_requests
        texts = sorted(graph.usage_counts("text") if keeps_texts else [], reverse=True)
        return usage.SearchGaps(
            keeps_texts=keeps_texts,
            requests=tuple(usage.EmptyRequest(at=each.day, text=each.name) for each in texts),
        )
