"""What operators do with a registry, and how they watch it. Each method makes a request that the registry performs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate

from waygraph.registry.model.changes import (
    Approved,
    Change,
    CypherResult,
    Forgotten,
    KeySummary,
    NewKey,
    OperatorSettings,
    Page,
    Rejections,
    Waiting,
    Written,
)
from waygraph.registry.model.nouns import Principal, Query
from waygraph.registry.model.pictures import Map, Neighbourhood
from waygraph.registry.model.usage import SearchGaps, Sort, ToolUsage, UsageBy, UsageOf, UsagePart
from waygraph.registry.model.validation import as_query, cursor, setting_changes
from waygraph.registry.operations.agents import (
    Approve,
    ForgetSource,
    ListChanges,
    ListWaiting,
    Reject,
    RemoveAgent,
    SetAgent,
    SetTool,
)
from waygraph.registry.operations.graph_views import DrawMap, Export, GetNeighbourhood, RunCypher
from waygraph.registry.operations.groupings import GetTaxonomy, ListTaxonomies, RemoveToolset, SetToolset, UseTaxonomy
from waygraph.registry.operations.oversight import (
    CreateKey,
    GetSearchGaps,
    ListKeys,
    ListUsage,
    ListUsageDays,
    RevokeKey,
)
from waygraph.registry.operations.request import ExportFormat, Performer, checked_most
from waygraph.registry.operations.search import FindPlacement
from waygraph.registry.operators.approval import checked_names, checked_reason
from waygraph.registry.operators.toolset import Toolset, stated_toolset
from waygraph.registry.routing.placement import Placement
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe
from waygraph.registry.taxonomy.tree import Drift, Taxonomy


class Operator:
    """What operators say of agents, tools and sources, and how they watch them."""

    def __init__(self, registry: Performer) -> None:
        self._registry = registry

    def set(
        self,
        agent_id: str,
        *,
        tags: Sequence[str] | None = None,
        visible_to: Sequence[str] | None = None,
        everyone: bool = False,
        pinned: bool | None = None,
        hidden: bool | None = None,
        removed: bool | None = None,
        principal: Principal | None = None,
    ) -> OperatorSettings:
        """What an operator says of an agent; None leaves a field as it is. It survives every sync.

        Raises UnknownName, also for an agent that the principal may not see; InvalidSetting for an empty name, and for
        no group at all: that would open it to everyone. `everyone` takes an operator's `visible_to` back.
        `removed=False` lets a removed agent's source bring it back. NotAllowed for what the principal may not set, see
        `access.operators`.
        """
        changes = setting_changes(
            tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
        )
        if changes == {"removed": True}:
            return self.remove(agent_id, principal=principal)
        return self._registry.perform(SetAgent(agent_id=agent_id, changes=changes), principal)

    def set_tool(
        self, name: str, changes: Mapping[str, Any], *, principal: Principal | None = None
    ) -> OperatorSettings:
        """What an operator says of a tool, by id or the call name that its source gives it: `name`, `description`,
        `questions`, `hidden` and `parameters`, by name objects of `name`, `description`, `pin` (a value that every call
        has) and `hidden`.

        None takes a field back; what is not there stays. It survives every sync. Raises UnknownName, InvalidSetting;
        NotAllowed for a principal that is no operator.
        """
        return self._registry.perform(SetTool.of(name, changes), principal)

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> OperatorSettings:
        """Removes an agent and its tools, and keeps it away whatever its source says. Raises as `set`."""
        return self._registry.perform(RemoveAgent(agent_id=agent_id), principal)

    def approve(
        self, *names: str, hashes: Mapping[str, str] | None = None, principal: Principal | None = None
    ) -> Approved:
        """What waits of an agent and its tools, of a tool, or of a source (`source:NAME`) is in routing from now on.
        Or, of `hashes` (id → content hash, as `waiting` tells it), each by itself, if it still says that.

        This includes flagged texts, as they are now. All of the names or, if there is an error, none. A new revision,
        unless nothing waited. Raises UnknownName, also for what the principal may not see; NotAllowed for a principal
        that is no operator, and for a source that claims an agent which it may not see; TextDiffers where one of
        `hashes` is another now; InvalidSetting for no name.
        """
        request = Approve(names=checked_names(names, hashes=hashes), hashes=hashes or {})
        return self._registry.perform(request, principal)

    def reject(
        self,
        *names: str,
        reason: str,
        by: str = "",
        hashes: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> Rejections:
        """What waits of the same names stays out of routing as its text is now, with the reason, and waits no more.

        This includes flagged texts, which are in routing till then. Another text of it waits again, and `approve` of
        its name undoes it. `by`: who, for the record. Raises as `approve`, and InvalidSetting without a reason.
        """
        unique_names, reason = checked_names(names, "reject", hashes), checked_reason(reason)
        request = Reject(names=unique_names, hashes=hashes or {}, reason=reason, by=by)
        return self._registry.perform(request, principal)

    def waiting(
        self, *, after: str = "", limit: int | None = None, principal: Principal | None = None
    ) -> Page[Waiting]:
        """What waits for approval, what was rejected, and what is flagged and not approved, agents and tools by id.

        Raises InvalidQuery, RegistryNotFound.
        """
        request = ListWaiting(cursor=cursor(after), limit=checked_most(limit))
        return self._registry.perform(request, principal)

    def forget(self, source: str, *, principal: Principal | None = None) -> Forgotten:
        """Removes a source and the agents that only it claimed, which the answer names, beside the sources that speak
        for another agent now and must be ingested again to be heard.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or is another's, or has a
        policy, and the principal is no operator.
        """
        return self._registry.perform(ForgetSource(name=source), principal)

    def set_toolset(
        self,
        name: str,
        *,
        description: str = "",
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        tags: Sequence[str] = (),
        callers: Sequence[str] = (),
        principal: Principal | None = None,
    ) -> Toolset:
        """A named choice of tools (by id), agents, and whatever has one of the tags, in place of the one of that name.

        Only members of the groups `callers` may use it; none: everybody who may see anything in it. What comes later
        and fits joins it. Raises InvalidSetting, also for the name of a namespace; NotAllowed for a principal.
        """
        rule = stated_toolset(
            name, description=description, tools=tools, agents=agents, tags=tags, callers=callers
        ).rule
        return self._registry.perform(SetToolset(name=name, **rule), principal)

    def remove_toolset(self, name: str, *, principal: Principal | None = None) -> Written:
        """Its tools stay. Raises UnknownName; NotAllowed for a principal."""
        return self._registry.perform(RemoveToolset(name=name), principal)

    def use_taxonomy(self, name: str, *, principal: Principal | None = None) -> Written:
        """Makes it the current one: what is browsed, walked and searched `within`.

        A new revision, unless it was that. Raises UnknownName; NotAllowed for a principal.
        """
        return self._registry.perform(UseTaxonomy(name=name), principal)

    def taxonomy(self, name: str | None = None, *, principal: Principal | None = None) -> Taxonomy:
        """The tree of categories of this name, None: the current one, with what the principal may see of it.

        A category is there if the principal sees something below it. Raises UnknownName, also for a tree of which the
        principal may see nothing.
        """
        return self._registry.perform(GetTaxonomy(name=name or ""), principal)

    def taxonomies(self) -> list[Drift]:
        """How far each has drifted from its build, by name."""
        return self._registry.perform(ListTaxonomies())

    def changes(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = 100,
        principal: Principal | None = None,
    ) -> Page[Change]:
        """What came and what syncs changed, of agents, tools and sources, newest first: at most `limit` that are
        older than the change of the id `after`.

        `since`: ISO 8601, in UTC unless it says otherwise. Of an agent that is gone, and of sources, only who sees
        everything learns.
        Raises InvalidQuery, RegistryNotFound.
        """
        request = ListChanges(since=since, agent=agent_id, cursor=cursor(after), limit=checked_most(limit))
        return self._registry.perform(request, principal)

    def usage(
        self,
        *,
        agent_id: str = "",
        sort: Sort = "calls",
        limit: int = 100,
        days: int = 0,
        principal: Principal | None = None,
    ) -> list[ToolUsage]:
        """How often and how fast the gateways of this machine ran each tool, by door: the `limit` (1 to 1,000) with the
        most calls, errors or the longest `p95`, of the last 1 to 90 `days`, or of all. Empty for a registry in memory.

        Raises InvalidQuery, UnknownName, RegistryNotFound, StorageFailed.
        """
        return self._registry.perform(ListUsage(agent=agent_id, sort=sort, limit=limit, days=days), principal)

    def why(
        self,
        name: str,
        query: str | Query,
        *,
        limit: int | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        agent_weight: float | None = None,
        tool_weight: float | None = None,
        principal: Principal | None = None,
    ) -> Placement:
        """Where an agent stands among the agents for a request, or a tool (by id or call name) among the tools: its
        rank, its votes beside those of the last one shown, what keeps it out, and which words its texts lack.

        The rest as `route` takes it. Raises as `route`, and UnknownName, also for what the principal may not see.
        """
        request = FindPlacement(
            id=name,
            query=as_query(query, limit),
            recipe=recipe,
            agent_weight=agent_weight,
            tool_weight=tool_weight,
        )
        return self._registry.perform(request, principal)

    def draw_map(self, *, principal: Principal | None = None) -> Map:
        """Where each agent and tool stands on the map of all that the principal may see: alike agents side by side.

        It is made once a revision, in seconds for thousands of tools. Raises RegistryNotFound.
        """
        return self._registry.perform(DrawMap(), principal)

    def neighbourhood(
        self, around: Sequence[str], *, kinds: Sequence[str] = (), limit: int = 60, principal: Principal | None = None
    ) -> Neighbourhood:
        """The graph around some nodes (`agent:ID`, `tool:ID`, `source:NAME`, `toolset:NAME`, `category:PATH`): these
        first, then their neighbours, at most `limit` (1 to 300) in all. `kinds` of edges; none: all.

        Raises InvalidQuery, UnknownName, RegistryNotFound.
        """
        request = GetNeighbourhood(around=around, kinds=kinds, limit=limit)  # type: ignore[arg-type] # checked
        return self._registry.perform(request, principal)

    def usage_days(
        self, *, of: UsageOf = "tool", by: UsageBy = "day", name: str = "", days: int = 30
    ) -> list[UsagePart]:
        """Calls of tools or callers, or requests, of the last 1 to 90 days: a part for each day, or for each name.

        `name`: only of this tool or caller. Raises InvalidQuery, StorageFailed.
        """
        return self._registry.perform(ListUsageDays(of=of, by=by, name=name, days=days))

    def search_gaps(self) -> SearchGaps:
        """What requests found nothing, and which of their words no text of the registry holds. Raises StorageFailed."""
        return self._registry.perform(GetSearchGaps())

    def api_keys(self) -> list[KeySummary]:
        """Who may call a service over this registry: every key, ended ones too, oldest first. Raises KeysUnusable."""
        return self._registry.perform(ListKeys())

    def create_key(
        self,
        name: str,
        scopes: Sequence[str],
        groups: Sequence[str] = (),
        *,
        everything: bool = False,
        toolset: str = "",
        expires_in_days: float | None = None,
    ) -> NewKey:
        """A new key, with its text, which is kept nowhere. Raises as `KeyFile.create`."""
        request = CreateKey(
            name=name,
            scopes=scopes,  # type: ignore[arg-type] # checked where the key is made
            groups=groups,
            everything=everything,
            toolset=toolset,
            expires_in_days=expires_in_days,
        )
        return self._registry.perform(request)

    def revoke_key(self, key_id: str) -> KeySummary:
        """Ends it now. Raises UnknownName."""
        return self._registry.perform(RevokeKey(key_id=key_id))

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> CypherResult:
        """Runs a statement that only reads, with limits of time, rows and memory, and of how many are at work.

        Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy.
        """
        from waygraph.registry.graph.user_cypher.sandbox import checked_params

        request = RunCypher(statement=statement, params=checked_params(params or {}))
        return self._registry.perform(request)

    def export(self, format: ExportFormat) -> str:  # noqa: A002 - what every caller calls it
        """The whole registry as text; the same revision gives the same text. Raises UnknownName, RegistryNotFound."""
        return self._registry.perform(Export(format=format))


def in_thread[**P, T](method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The method of this name, run in a thread."""

    @wraps(method)
    async def run(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        answer: T = await self._run(partial(getattr(self._subject, method.__name__), *args, **options))
        return answer

    return run


type Run = Callable[[Callable[[], Any]], Awaitable[Any]]


class AsyncOperator:
    """The methods of `Registry.operator`, awaitable."""

    def __init__(self, subject: Operator, run: Run) -> None:
        self._subject, self._run = subject, run

    set = in_thread(Operator.set)
    set_tool = in_thread(Operator.set_tool)
    remove = in_thread(Operator.remove)
    approve = in_thread(Operator.approve)
    reject = in_thread(Operator.reject)
    waiting = in_thread(Operator.waiting)
    forget = in_thread(Operator.forget)
    set_toolset = in_thread(Operator.set_toolset)
    remove_toolset = in_thread(Operator.remove_toolset)
    use_taxonomy = in_thread(Operator.use_taxonomy)
    taxonomy = in_thread(Operator.taxonomy)
    taxonomies = in_thread(Operator.taxonomies)
    changes = in_thread(Operator.changes)
    usage = in_thread(Operator.usage)
    why = in_thread(Operator.why)
    draw_map = in_thread(Operator.draw_map)
    neighbourhood = in_thread(Operator.neighbourhood)
    usage_days = in_thread(Operator.usage_days)
    search_gaps = in_thread(Operator.search_gaps)
    api_keys = in_thread(Operator.api_keys)
    create_key = in_thread(Operator.create_key)
    revoke_key = in_thread(Operator.revoke_key)
    cypher = in_thread(Operator.cypher)
    export = in_thread(Operator.export)
