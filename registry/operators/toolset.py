"""Toolsets: a named choice of tools, agents and tags, its rows in the graph, and what somebody sees of it."""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from waygraph.cypher import load
from waygraph.registry.access.visibility import visible
from waygraph.registry.graph.contents import Contents
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Part, Vectors, overlaid, read_agents, read_settings, read_tools
from waygraph.registry.graph.write import run_batches
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.changes import Change, Written
from waygraph.registry.model.errors import InvalidSetting, UnknownName
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.nouns import Agent, Principal, canonical_json
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import MAX_NAMES, checked_names
from waygraph.registry.writer import RegistryNoun, WriteSession

_READ_INCLUSIONS = load("read/inclusions")
_READ_TOOLSETS = load("read/nodes", "Toolset")
_TOOLSET_EXCLUDE = load("toolset/exclude")
_TOOLSET_INCLUDE = load("toolset/include")
_PUT_TOOLSET = load("node/put", "Toolset")
_REMOVE_TOOLSET = load("node/remove", "Toolset")

RULE = ("description", "tools", "agents", "tags", "callers")
"""What an operator says of a toolset."""
MOST_NAMED = 5
"""So many names that are not there `doctor` tells."""
_TOOLSET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PAGES = "login"
MAX_DESCRIPTION_CHARS = 2_000
"""Of a toolset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The rule as stated, and what it means now. What comes later and fits joins.

    Without `callers` everybody may use it who may see anything in it. `members` and `missing` are there where somebody
    looks at it.
    """

    name: str
    description: str = ""
    tools: tuple[str, ...] = ()
    """Those that it names, by id."""
    agents: tuple[str, ...] = ()
    """Those that it names, by id."""
    tags: tuple[str, ...] = ()
    """Agents with any of them are in it."""
    callers: tuple[str, ...] = ()
    """Groups that may use it; told to who sees everything."""
    includes: tuple[str, ...] = ()
    """Ids of its tools."""
    members: tuple[str, ...] = ()
    """Ids of the agents that it reaches."""
    missing: tuple[str, ...] = ()
    """What it names and is not there; told to who sees everything."""

    def chooses(self, agent: Agent) -> bool:
        """Whether the agent is in it as a whole."""
        return agent.id in self.agents or not set(self.tags).isdisjoint(agent.tags)

    def chosen_tools(self, agent: Agent, tool_ids: Iterable[str]) -> list[str]:
        """Those of an agent's tools that it includes."""
        return list(tool_ids) if self.chooses(agent) else [each for each in tool_ids if each in self.tools]

    def missing_names(self, agents: Container[str], tags: Container[str]) -> tuple[str, ...]:
        """Of the rule, what is neither a tool that it includes, nor one of these agents or tags."""
        rules = ((self.tools, frozenset(self.includes)), (self.agents, agents), (self.tags, tags))
        return tuple(each for names, there in rules for each in names if each not in there)

    @property
    def rule(self) -> dict[str, Any]:
        """What an operator says of it, lists as JSON has them."""
        values = {each: getattr(self, each) for each in RULE}
        return {each: list(value) if isinstance(value, tuple) else value for each, value in values.items()}

    def rule_json(self) -> dict[str, Any]:
        """Name and rule, as exports have them."""
        return {"name": self.name} | self.rule

    def as_json(self) -> dict[str, Any]:
        return self.rule_json() | {"includes": list(self.includes)}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "Toolset":
        """Of what `as_json` or `rule_json` wrote. Raises TypeError for anything else."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**fields)


def stated_toolset(name: str, **rule: Any) -> Toolset:
    """The rule alone, its names in order. Raises InvalidSetting."""
    if not isinstance(name, str) or not _TOOLSET_NAME.fullmatch(name):
        raise InvalidSetting(
            f"{repr(name)[:100]} cannot be a toolset's name; expected letters, digits, `_`, `.` and `-`, at most 64, "
            "with a letter or digit first"
        )
    if name == _PAGES:
        raise InvalidSetting(f"{name!r} cannot be a toolset's name: a service has its pages for logins there")
    if astray := sorted(map(str, rule.keys() - {*RULE})):
        raise InvalidSetting(f"a toolset has no {astray[0]!r}; it has {', '.join(RULE)}")
    text: object = rule.pop("description", "")
    if not isinstance(text, str) or len(text) > MAX_DESCRIPTION_CHARS:
        raise InvalidSetting(f"the description of a toolset is a text of at most {MAX_DESCRIPTION_CHARS} characters")
    toolset = Toolset(
        name=name,
        description=replace_surrogates(text),
        **{each: checked_names(each, names) for each, names in rule.items()},
    )
    for each in rule:
        if len(names := getattr(toolset, each)) > MAX_NAMES:
            raise InvalidSetting(f"{each} of a toolset are at most {MAX_NAMES}, not {len(names)}")
    for tool in toolset.tools:
        if "/" not in tool:
            raise InvalidSetting(f"a tool of a toolset is named by its id, such as agent/tool, not {tool!r}")
    if not (toolset.tools or toolset.agents or toolset.tags):
        raise InvalidSetting("a toolset needs at least one tool, agent or tag")
    return toolset


def put_toolset(session: GraphSession, new: Toolset, tools_before: Collection[str] = ()) -> None:
    """`new` in place of the one of its name. `tools_before`: ids of the tools that it included so far."""
    session.run(_PUT_TOOLSET, id=new.name, props=new.rule)
    put_edges(session, {new.name: (set(tools_before), set(new.includes))})


def put_edges(session: GraphSession, edges: Mapping[str, tuple[set[str], set[str]]]) -> None:
    """By name of a toolset: what it included, and what it includes. Only what differs is written."""
    old_edges = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(was - now)]
    come = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(now - was)]
    for statement, rows in ((_TOOLSET_EXCLUDE, old_edges), (_TOOLSET_INCLUDE, come)):
        run_batches(session, statement, "rows", rows)


def choose_tools(
    session: GraphSession, toolsets: Sequence[Toolset], agent_ids: Collection[str] | None = None
) -> dict[str, set[str]]:
    """By name of each toolset the ids of the tools that its rule chooses, of these agents; None: of all."""
    settings, items = read_settings(session, agent_ids), read_agents(session, agent_ids)
    tool_ids: dict[str, list[str]] = {}
    for item in read_tools(session, agent_ids):
        tool_ids.setdefault(item.tool.agent_id, []).append(item.tool.id)
    agents = [overlaid(item.agent, settings) for item in items.values()]
    return {
        each.name: {tool for agent in agents for tool in each.chosen_tools(agent, tool_ids.get(agent.id, ()))}
        for each in toolsets
    }


def toolset_change(was: Toolset | None, now: Toolset | None) -> Change:
    """What the log keeps of it; one of the two is there."""
    before, after = (each.rule_json() if each else {} for each in (was, now))
    differing = tuple(each for each in RULE if before.get(each) != after.get(each))
    return Change(
        source="",
        agent_id=f"toolset:{(now or was or Toolset(name='')).name}",
        what="changed" if was and now else "added" if now else "removed",
        fields=differing if was and now else (),
        before=canonical_json({each: before[each] for each in differing if before}),
        after=canonical_json({each: after[each] for each in differing if after}),
    )


class Toolsets(RegistryNoun[Toolset]):
    name, singular, kind = "toolsets", "toolset", Toolset
    advice = "set the toolset anew: `waygraph toolset update NAME`"

    def read(self, session: GraphSession) -> list[Toolset]:
        """In order of their names, each with the ids of its tools in order."""
        if not (rows := session.run(_READ_TOOLSETS)):
            return []
        tools: dict[str, list[str]] = {}
        for row in session.run(_READ_INCLUSIONS):
            tools.setdefault(row["toolset"], []).append(row["tool"])
        return [
            Toolset.of_json(
                {each: row["props"].get(each) for each in RULE}
                | {"name": row["name"], "includes": tools.get(row["name"], [])}
            )
            for row in rows
        ]

    def put(self, session: GraphSession, value: Toolset, vectors: Vectors) -> None:  # noqa: ARG002 - it has none
        put_toolset(session, value)

    def as_export(self, value: Toolset) -> dict[str, Any]:
        """Without the tools that it includes: the rule chooses them anew."""
        return value.rule_json()

    def of_export(self, document: Mapping[str, Any]) -> Toolset:
        return stated_toolset(**document)

    def texts(self, value: Toolset) -> Iterable[str]:
        return (value.description, *value.tags)

    def restore(self, session: WriteSession, values: Sequence[Toolset]) -> Written:
        """Those whose names neither a toolset nor a namespace has."""
        names = {each.name for each in self.read(session.engine)} | _namespaces(session).keys()
        for each in values:
            if each.name not in names:
                set_toolset(session, each)
        return Written(revision=session.begin().revision)

    @contextmanager
    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:
        """What is new joins afterwards, and what a rule chooses no more leaves; vectors alone change nothing."""
        yield
        toolsets = self.read(session) if agent_ids else []
        if agent_ids and toolsets:
            now, agents = choose_tools(session, toolsets, agent_ids), set(agent_ids)
            before = {each.name: {tool for tool in each.includes if owner_of(tool) in agents} for each in toolsets}
            put_edges(session, {name: (before[name], now[name]) for name in now})

    def counts(self, values: Sequence[Toolset]) -> dict[str, int]:
        return {"toolsets": len(values), "inclusions": sum(len(each.includes) for each in values)}

    def faults(self, contents: Contents) -> Iterator[str]:
        """What a rule chooses and no edge leads to, and the other way."""
        toolsets, edges = contents.values(self), contents.counts["inclusions"]
        choices, tools = choose_tools(contents.session, toolsets), self.counts(toolsets)["inclusions"]
        if edges != tools:
            yield f"{edges} edges for {tools} tools"
        for each in toolsets:
            differing = sorted(choices[each.name].symmetric_difference(each.includes))
            yield from (f"{each.name} and {tool}" for tool in differing)

    def sound(self, contents: Contents) -> str:
        """Also what rules name that is not there, which is no fault: it may come back."""
        agents = contents.overlaid_agents
        tags = {tag for agent in agents.values() for tag in agent.tags}
        toolsets = contents.values(self)
        missing = [f"{each.name} names {name}" for each in toolsets for name in each.missing_names(agents, tags)]
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        note = f"; not there: {', '.join(missing[:MOST_NAMED])}{more}" if missing else ""
        return f"each includes what its rule says{note}"


TOOLSETS = Toolsets()


def set_toolset(session: WriteSession, new: Toolset) -> Toolset:
    """In place of the one of the same name; returns it as it is stored. What changes nothing keeps the revision.

    Raises InvalidSetting for the name of a namespace.
    """
    session.begin()
    namespaces = _namespaces(session)
    if new.name in namespaces:
        raise InvalidSetting(
            f"{new.name!r} is the namespace of the source {namespaces[new.name]!r}, which has the endpoint "
            f"/{new.name}/mcp; give the toolset another name"
        )
    before = {each.name: each for each in TOOLSETS.read(session.engine)}.get(new.name)
    new = replace(new, includes=tuple(sorted(choose_tools(session.engine, [new])[new.name])))
    if new != before:
        log = [toolset_change(before, new)] if before is None or before.rule_json() != new.rule_json() else []

        def work(graph_session: GraphSession) -> None:
            put_toolset(graph_session, new, before.includes if before else ())
            session.log(graph_session, log)

        session.write(work)
    return new


def remove_toolset(session: WriteSession, name: str) -> Written:
    """Raises UnknownName."""
    session.begin()
    toolsets = {each.name: each for each in TOOLSETS.read(session.engine)}
    if name not in toolsets:
        raise UnknownName("toolset", name, toolsets)

    def work(graph_session: GraphSession) -> None:
        graph_session.run(_REMOVE_TOOLSET, id=name)
        session.log(graph_session, [toolset_change(toolsets[name], None)])

    return session.write(work)


def _namespaces(session: WriteSession) -> dict[str, str]:
    """Namespace → its source."""
    sources = session.read_graph_view(Part()).sources
    return {source.namespace: name for name, source in sources.items() if source.namespace}


def seen_toolsets(index: SearchIndex, principal: Principal | None) -> list[Toolset]:
    toolsets = index.values(TOOLSETS)
    agents = [agent for agent in index.agents().values() if visible(agent, principal)] if toolsets else []
    ids_by_tag: dict[str, set[str]] = {}
    for agent in agents:
        for tag in agent.tags:
            ids_by_tag.setdefault(tag, set()).add(agent.id)
    agent_ids = {agent.id for agent in agents}
    return [toolset for each in toolsets if (toolset := _as_seen(each, agent_ids, ids_by_tag, principal)) is not None]


def seen_toolset(index: SearchIndex, name: str, principal: Principal | None) -> Toolset:
    """Raises UnknownName, in the same words and after the same work for one that is not there and for one that the
    principal may not use.
    """
    toolsets = {each.name: each for each in seen_toolsets(index, principal)}
    if name not in toolsets:
        raise UnknownName("toolset", name, toolsets)
    return toolsets[name]


def _as_seen(
    toolset: Toolset, agent_ids: Collection[str], ids_by_tag: Mapping[str, Collection[str]], principal: Principal | None
) -> Toolset | None:
    """`agent_ids`: of the agents that the principal may see; `ids_by_tag`: the same by tag.

    None: the principal must not learn of the toolset.
    """
    includes = tuple(each for each in toolset.includes if owner_of(each) in agent_ids)
    members = set(map(owner_of, includes)).union(
        (each for each in toolset.agents if each in agent_ids), *(ids_by_tag.get(tag, ()) for tag in toolset.tags)
    )
    view = replace(toolset, includes=includes, members=tuple(sorted(members)))
    if principal is None:
        return replace(view, missing=toolset.missing_names(agent_ids, ids_by_tag))
    may_use = not toolset.callers or not set(toolset.callers).isdisjoint(principal.groups)
    if not (may_use and members):
        return None
    return replace(
        view,
        tools=tuple(each for each in toolset.tools if each in includes),
        agents=tuple(each for each in toolset.agents if each in agent_ids),
        tags=tuple(each for each in toolset.tags if each in ids_by_tag),
        callers=(),
    )
