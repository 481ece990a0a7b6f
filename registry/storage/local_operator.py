"""What operators do with a registry that is here. What each method is for: `Operator` in `registry.py`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from waygraph.registry.access.operators import refuse_limited, refuse_non_operator
from waygraph.registry.model.changes import Change, OperatorSettings, Page
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.tracing import span
from waygraph.registry.model.usage import Sort
from waygraph.registry.model.validation import setting_changes, stated_toolset
from waygraph.registry.routing.seen_toolsets import seen_toolset
from waygraph.registry.storage.graph_access import GraphAccess

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Approved, CypherResult, Forgotten, Written
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.writer import WriteSession


class LocalOperator:
    """Implements Operator over a graph."""

    def __init__(self, graph: GraphAccess) -> None:
        self._graph = graph

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
        from waygraph.registry.storage.writer import changed_setting

        changes = setting_changes(
            tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
        )

        def work(session: "WriteSession") -> OperatorSettings:
            graph = session.read_graph_view()
            setting = changed_setting(graph, agent_id, changes, principal)
            if setting != graph.settings_of(agent_id):
                session.put_setting(setting)
            return setting

        return self._graph.change_existing(work)

    def set_tool(
        self, name: str, changes: Mapping[str, Any], *, principal: Principal | None = None
    ) -> OperatorSettings:
        from waygraph.registry.model.tool_settings import merge_tool_setting
        from waygraph.registry.storage.approval import find_held_tool

        refuse_non_operator("to set a tool", principal)

        def work(session: "WriteSession") -> OperatorSettings:
            session.set_apart(principal)
            graph = session.read_graph_view()
            tool = find_held_tool(graph, name, principal, hint="")
            siblings = [item.tool for item in graph.tools_of([tool.agent_id])[tool.agent_id]]
            setting = merge_tool_setting(graph.settings_of(tool.agent_id), tool, siblings, changes)
            if setting != graph.settings_of(tool.agent_id):
                session.put_setting(setting)
            return setting

        return self._graph.change_existing(work)

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> OperatorSettings:
        return self.set(agent_id, removed=True, principal=principal)

    def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        from waygraph.registry.storage.approval import checked_names

        unique_names = checked_names(names)
        return self._graph.change_existing(lambda session: session.approve(*unique_names, principal=principal))

    def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        return self._graph.change_existing(lambda session: session.forget_source(source, principal))

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
        refuse_limited(principal)
        new = stated_toolset(name, description=description, tools=tools, agents=agents, tags=tags, callers=callers)
        self._graph.change_existing(lambda session: session.put_toolset(new))
        return self._graph.store.look(lambda index: seen_toolset(index, name, None))

    def remove_toolset(self, name: str, *, principal: Principal | None = None) -> "Written":
        refuse_limited(principal)
        return self._graph.change_existing(lambda session: session.remove_toolset(name))

    def changes(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = 100,
        principal: Principal | None = None,
    ) -> Page[Change]:
        from waygraph.registry.routing.queries import ChangesQuery, seen_changes

        request = ChangesQuery.of(since, agent_id, after, limit)
        return self._graph.read(lambda session: seen_changes(session, request, principal))

    def usage(
        self, *, agent_id: str = "", sort: Sort = "calls", limit: int = 100, principal: Principal | None = None
    ) -> "list[ToolUsage]":
        from waygraph.registry.storage.usage_file import read_usage

        graph = self._graph
        return read_usage(graph.store, graph.settings, agent_id=agent_id, sort=sort, limit=limit, principal=principal)

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> "CypherResult":
        with span("cypher"):
            return self._graph.store.run_read_only(statement, params or {})

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        from waygraph.registry.storage.export.formats import export

        return export(self._graph, format)
