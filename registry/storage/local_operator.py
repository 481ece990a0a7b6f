"""What operators do with a registry that is here; `RemoteOperator` does the same over a service."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

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
from waygraph.registry.model.tracing import span
from waygraph.registry.model.validation import check_query, setting_changes
from waygraph.registry.operators.approval import (
    approve,
    changed_setting,
    checked_names,
    checked_reason,
    find_held_tool,
    put_setting,
    read_named,
    reject,
)
from waygraph.registry.operators.rights import refuse_limited, refuse_non_operator
from waygraph.registry.operators.sources import forget_source
from waygraph.registry.operators.toolset import Toolset, remove_toolset, seen_toolset, set_toolset, stated_toolset
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe, recipe_named
from waygraph.registry.routing.router import Ask
from waygraph.registry.storage.graph_access import GraphAccess
from waygraph.registry.taxonomy.browse import no_taxonomy, seen_taxonomy
from waygraph.registry.taxonomy.taxonomies import use_taxonomy

if TYPE_CHECKING:
    from waygraph.registry.access.api_keys import KeyFile
    from waygraph.registry.model.pictures import Map, Neighbourhood
    from waygraph.registry.model.usage import SearchGaps, Sort, ToolUsage, UsageBy, UsageOf, UsagePart
    from waygraph.registry.routing.placement import Placement
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.taxonomy.tree import Drift, Taxonomy
    from waygraph.registry.writer import WriteSession


class LocalOperator:
    """What operators say of agents, tools and sources, and how they watch them."""

    def __init__(self, graph: GraphAccess, place: "Callable[[str, Query, Ask], Placement]") -> None:
        """`place`: where an agent or a tool of this name stands for a query."""
        self._graph, self._place = graph, place

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

        def work(session: "WriteSession") -> OperatorSettings:
            graph = session.read_agents([agent_id], principal)
            setting = changed_setting(graph, agent_id, changes, principal)
            if setting != graph.settings_of(agent_id):
                put_setting(session, setting)
            return setting

        return self._graph.change_existing(work)

    def set_tool(
        self, name: str, changes: Mapping[str, Any], *, principal: Principal | None = None
    ) -> OperatorSettings:
        """What an operator says of a tool, by id or the call name that its source gives it: `name`, `description`,
        `hidden` and `parameters`, by name objects of `name`, `description`, `pin` (a value that every call has) and
        `hidden`.

        None takes a field back; what is not there stays. It survives every sync. Raises UnknownName, InvalidSetting;
        NotAllowed for a principal that is no operator.
        """
        from waygraph.registry.model.tool_settings import merge_tool_setting

        refuse_non_operator("to set a tool", principal)

        def work(session: "WriteSession") -> OperatorSettings:
            session.set_apart(principal)
            graph = read_named(session, [name], principal)
            tool = find_held_tool(graph, name, principal, hint="")
            siblings = [item.tool for item in graph.tools_of([tool.agent_id])[tool.agent_id]]
            setting = merge_tool_setting(graph.settings_of(tool.agent_id), tool, siblings, changes)
            if setting != graph.settings_of(tool.agent_id):
                put_setting(session, setting)
            return setting

        return self._graph.change_existing(work)

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> OperatorSettings:
        """Removes an agent and its tools, and keeps it away whatever its source says. Raises as `set`."""
        return self.set(agent_id, removed=True, principal=principal)

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
        unique_names = checked_names(names, hashes=hashes)
        return self._graph.change_existing(
            lambda session: approve(session, *unique_names, hashes=hashes, principal=principal)
        )

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
        names, reason = checked_names(names, "reject", hashes), checked_reason(reason)
        return self._graph.change_existing(
            lambda session: reject(session, *names, reason=reason, by=by, hashes=hashes, principal=principal)
        )

    def waiting(
        self, *, after: str = "", limit: int | None = None, principal: Principal | None = None
    ) -> Page[Waiting]:
        """What waits for approval, what was rejected, and what is flagged and not approved, agents and tools by id.

        Raises InvalidQuery, RegistryNotFound.
        """
        from waygraph.registry.catalog.change_log import seen_waiting

        return self._graph.read(lambda session: seen_waiting(session, principal, after, limit))

    def forget(self, source: str, *, principal: Principal | None = None) -> Forgotten:
        """Removes a source and the agents that only it claimed, which the answer names, beside the sources that speak
        for another agent now and must be ingested again to be heard.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or is another's, or has a
        policy, and the principal is no operator.
        """
        return self._graph.change_existing(lambda session: forget_source(session, source, principal))

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
        refuse_limited(principal, "toolsets are made")
        new = stated_toolset(name, description=description, tools=tools, agents=agents, tags=tags, callers=callers)
        self._graph.change_existing(lambda session: set_toolset(session, new))
        return self._graph.store.look(lambda index: seen_toolset(index, name, None))

    def remove_toolset(self, name: str, *, principal: Principal | None = None) -> Written:
        """Its tools stay. Raises UnknownName; NotAllowed for a principal."""
        refuse_limited(principal, "toolsets are removed")
        return self._graph.change_existing(lambda session: remove_toolset(session, name))

    def use_taxonomy(self, name: str, *, principal: Principal | None = None) -> Written:
        """Makes it the current one: what is browsed, walked and searched `within`.

        A new revision, unless it was that. Raises UnknownName; NotAllowed for a principal.
        """
        refuse_limited(principal, "the current taxonomy is chosen")
        return self._graph.change_existing(lambda session: use_taxonomy(session, name))

    def taxonomy(self, name: str | None = None, *, principal: Principal | None = None) -> "Taxonomy":
        """The tree of categories of this name, None: the current one, with what the principal may see of it.

        A category is there if the principal sees something below it. Raises UnknownName, also for a tree of which the
        principal may see nothing.
        """
        if (taxonomy := self._graph.store.look(lambda index: seen_taxonomy(index, name, principal))) is None:
            raise no_taxonomy(name)
        return taxonomy

    def taxonomies(self) -> "list[Drift]":
        """How far each has drifted from its build, by name."""
        from waygraph.registry.taxonomy.structure import read_drift

        return self._graph.read(read_drift)

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
        from waygraph.registry.catalog.change_log import ChangesQuery, seen_changes

        request = ChangesQuery.of(since, agent_id, after, limit)
        return self._graph.read(lambda session: seen_changes(session, request, principal))

    def usage(
        self, *, agent_id: str = "", sort: "Sort" = "calls", limit: int = 100, principal: Principal | None = None
    ) -> "list[ToolUsage]":
        """How often and how fast the gateways of this machine ran each tool: the `limit` (1 to 1,000) with the most
        calls, errors or the longest `p95`. Empty for a registry in memory.

        Raises InvalidQuery, UnknownName, RegistryNotFound, StorageFailed.
        """
        from waygraph.registry.storage.usage_file import read_usage

        graph = self._graph
        return read_usage(graph.store, graph.settings, agent_id=agent_id, sort=sort, limit=limit, principal=principal)

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
    ) -> "Placement":
        """Where an agent stands among the agents for a request, or a tool (by id or call name) among the tools: its
        rank, its votes beside those of the last one shown, what keeps it out, and which words its texts lack.

        The rest as `route` takes it. Raises as `route`, and UnknownName, also for what the principal may not see.
        """
        ask = Ask.of(recipe_named(recipe) if isinstance(recipe, str) else recipe, agent_weight, tool_weight, principal)
        return self._place(name, check_query(query, self._graph.settings, limit), ask)

    def draw_map(self, *, principal: Principal | None = None) -> "Map":
        """Where each agent and tool stands on the map of all that the principal may see: alike agents side by side.

        It is made once a revision, in seconds for thousands of tools. Raises RegistryNotFound.
        """
        from waygraph.registry.storage.export.map import lay_out_map, read_map

        store = self._graph.store

        def key() -> object:
            state = store.index(fresh=True).state
            return state.revision, state.commit, None if principal is None else frozenset(principal.groups)

        return self._graph.kept_map(key, lambda: lay_out_map(*store.look(lambda index: read_map(index, principal))))

    def neighbourhood(
        self, around: Sequence[str], *, kinds: Sequence[str] = (), limit: int = 60, principal: Principal | None = None
    ) -> "Neighbourhood":
        """The graph around some nodes (`agent:ID`, `tool:ID`, `source:NAME`, `toolset:NAME`, `category:PATH`): these
        first, then their neighbours, at most `limit` (1 to 300) in all. `kinds` of edges; none: all.

        Raises InvalidQuery, UnknownName, RegistryNotFound.
        """
        from waygraph.registry.catalog.neighbourhood import seen_neighbourhood
        from waygraph.registry.model.pictures import check_neighbourhood

        check_neighbourhood(around, kinds, limit)
        return self._graph.store.look(lambda index: seen_neighbourhood(index, around, kinds, limit, principal))

    def usage_days(
        self, *, of: "UsageOf" = "tool", by: "UsageBy" = "day", name: str = "", days: int = 30
    ) -> "list[UsagePart]":
        """Calls of tools or callers, or requests, of the last 1 to 90 days: a part for each day, or for each name.

        `name`: only of this tool or caller. Raises InvalidQuery, StorageFailed.
        """
        from waygraph.registry.storage.usage_file import read_days

        return read_days(self._graph.store, self._graph.settings, of=of, by=by, name=name, days=days)

    def search_gaps(self) -> "SearchGaps":
        """What requests found nothing, and which of their words no text of the registry holds. Raises StorageFailed."""
        from waygraph.registry.storage.usage_file import read_gaps

        return read_gaps(self._graph.store, self._graph.settings)

    @property
    def _key_file(self) -> "KeyFile":
        from waygraph.registry.access.authenticator import key_file

        return key_file(self._graph.settings)

    def api_keys(self) -> list[KeySummary]:
        """Who may call a service over this registry: every key, ended ones too, oldest first. Raises KeysUnusable."""
        file = self._key_file
        return list(map(file.summary, file.list()))

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
        file, lasts = self._key_file, None if expires_in_days is None else timedelta(days=expires_in_days)
        key, text = file.create(name, scopes, groups, everything=everything, toolset=toolset, expires_in=lasts)
        return file.new_key(key, text)

    def revoke_key(self, key_id: str) -> KeySummary:
        """Ends it now. Raises UnknownName."""
        file = self._key_file
        return file.summary(file.revoke(key_id))

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> CypherResult:
        """Runs a statement that only reads, with limits of time, rows and memory, and of how many are at work.

        Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy.
        """
        with span("cypher"):
            return self._graph.store.run_read_only(statement, params or {})

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        """The whole registry as text; the same revision gives the same text. Raises UnknownName, RegistryNotFound."""
        from waygraph.registry.storage.export.formats import export

        return export(self._graph, format)
