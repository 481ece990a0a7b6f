"""What a skill teaches and needs: edges to the tools and servers that it names, kept true as tools come and go."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from waygraph.cypher import load
from waygraph.registry.graph.contents import Contents, GraphNoun
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Part, Vectors, read_agents, read_graph_view, read_tools
from waygraph.registry.graph.write import names_in, run_batches
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.transitions import is_tool, owner_of

_COUNT_SKILLS = load("read/count_skills")
_READ_LINKS = load("read/skill_links")
_READ_NAMES = load("read/skill_names")
_READ_STAMP = load("read/skill_links_stamp")
_STATE_UPDATE = load("state/update")
_NEED = load("skill/need")
_TEACH = load("skill/teach")
_UNLINK = load("skill/unlink")
_STARTS = re.compile(r"^|(?<=[/:])|(?<=__)")
"""Where a tool's own name may start in one that names its server, too: it may itself hold what sets them apart."""
_FORMS = ("{}/{}", "{}:{}", "{}__{}", "mcp__{}__{}")
"""How a text names a tool with its server, which stands there by its id or its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLinks:
    """Of a skill, by its id: ids of the tools that it teaches, and of the servers that it needs; each in order."""

    name: str
    teaches: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def ids(self) -> set[str]:
        return {*self.teaches, *self.needs}

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "teaches": self.teaches, "needs": self.needs}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "SkillLinks":
        return cls(name=document["name"], teaches=tuple(document["teaches"]), needs=tuple(document["needs"]))


class Links(GraphNoun[SkillLinks]):
    """Those of all skills that have any."""

    name, kind = "skill_links", SkillLinks
    advice = "ingest the skills again"

    def read(self, session: GraphSession) -> list[SkillLinks]:
        ids: dict[str, tuple[list[str], list[str]]] = {}
        for row in session.run(_READ_LINKS):
            ids.setdefault(row["skill"], ([], []))[0 if is_tool(row["other"]) else 1].append(row["other"])
        return [
            SkillLinks(name=skill, teaches=tuple(sorted(tools)), needs=tuple(sorted(servers)))
            for skill, (tools, servers) in sorted(ids.items())
        ]

    def put(self, session: GraphSession, value: SkillLinks, vectors: Vectors) -> None:  # noqa: ARG002
        """Links have none of the `vectors`: float32 of shape (dimension,)."""
        _put(session, {}, {value.name: value.ids})

    def stamp(self, session: GraphSession) -> str:
        return str(session.run(_READ_STAMP)[0]["stamp"])

    @contextmanager
    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:
        """Of the skills among these agents, and of those that name a tool which one of them had or has."""
        before = _read_agents(session, agent_ids) if _has_skills(session) else {}
        names = _names_of(session, before) if before else set()
        yield
        if not (before or _has_skills(session)):
            return
        after = _read_agents(session, agent_ids)
        names |= _names_of(session, after)
        rows = session.run(_READ_NAMES) if names else ()
        skills = [row["id"] for row in rows if row["id"] in after or not names.isdisjoint(row["names"])]
        if skills:
            _put(session, {each.name: each.ids for each in self.read(session)}, resolve_names(session, skills))
        if skills or any(each.kind == "skill" for each in before.values()):
            session.run(_STATE_UPDATE, props={"skill_links": token_hex(8)})

    def rows(self, value: SkillLinks) -> int:
        return len(value.teaches) + len(value.needs)

    def counts(self, values: Sequence[SkillLinks]) -> dict[str, int]:
        return {"skill_links": sum(map(self.rows, values))}

    def faults(self, contents: Contents) -> Iterator[str]:
        """What a skill names and no edge leads to, and the other way."""
        now = resolve_names(contents.session, [row["id"] for row in contents.session.run(_READ_NAMES)])
        before = {each.name: each.ids for each in contents.values(self)}
        for skill in sorted(now.keys() | before):
            yield from (f"{skill} and {each}" for each in sorted(now.get(skill, set()) ^ before.get(skill, set())))


LINKS = Links()


def resolve_names(session: GraphSession, skill_ids: Iterable[str]) -> dict[str, set[str]]:
    """By skill the ids of the tools that it names, and of their servers and the servers that it names alone.

    A name without its server counts where no other tool has it that everybody may see: so no caller learns of tools
    that are hidden from it by what a skill teaches it.
    """
    skills = [item.agent for item in read_agents(session, skill_ids).values() if item.agent.kind == "skill"]
    names = {skill.id: names_in(skill) for skill in skills}
    every_name = {name for its in names.values() for name in its}
    view = read_graph_view(session, Part(agent_ids=every_name))
    tools, owners = view.tools_named({name[at.start() :] for name in every_name for at in _STARTS.finditer(name)})
    by_form, by_name = dict[str, set[str]](), dict[str, dict[str, bool]]()
    for tool in (item.tool for item in tools):
        owner = owners.overlaid(tool.agent_id)
        if owner.kind != "skill":
            by_name.setdefault(tool.name, {})[tool.id] = not (owner.hidden or owner.visible_to)
            for form in _full_names(owner, tool):
                by_form.setdefault(form, set()).add(tool.id)
    links = dict[str, set[str]]()
    for skill, its in names.items():
        ids = (by_form.get(name.casefold()) or _only(by_name.get(name, {})) for name in its)
        links[skill] = set[str]().union(*ids)
        links[skill] |= {owner_of(each) for each in links[skill]}
        links[skill] |= {name for name in its if name in view.agents and view.agents[name].agent.kind != "skill"}
    return links


def _only(bearers: Mapping[str, bool]) -> set[str]:
    """Tools of one bare name, each with whether everybody may see it: those beside which there is no such other."""
    public = {each for each, is_public in bearers.items() if is_public}
    return {each for each in bearers if not public - {each}}


def _full_names(owner: Agent, tool: Tool) -> set[str]:
    """Folded."""
    servers = {owner.id, owner.name, re.sub(r"[^\w-]", "_", owner.name)}
    forms = [form.format(server, tool.name) for server in servers for form in _FORMS]
    return set(map(str.casefold, (tool.id, tool.call_name, *forms)))


def _has_skills(session: GraphSession) -> bool:
    return bool(session.run(_COUNT_SKILLS)[0]["skills"])


def _read_agents(session: GraphSession, agent_ids: Collection[str] | None) -> dict[str, Agent]:
    return {each: item.agent for each, item in read_agents(session, agent_ids or ()).items()}


def _names_of(session: GraphSession, agents: Mapping[str, Agent]) -> set[str]:
    """All names that may mean these agents or their tools, folded."""
    names = {agent_id.casefold() for agent_id in agents}
    for tool in (item.tool for item in read_tools(session, agents)):
        names |= {tool.name.casefold()} | _full_names(agents[tool.agent_id], tool)
    return names


def _put(session: GraphSession, before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> None:
    """Writes what differs."""
    old = [(skill, each) for skill, ids in after.items() for each in before.get(skill, set()) - ids]
    new = [(skill, each) for skill, ids in after.items() for each in ids - before.get(skill, set())]
    teach, need = ([pair for pair in new if is_tool(pair[1]) is leads_to_tool] for leads_to_tool in (True, False))
    for statement, pairs in ((_UNLINK, old), (_TEACH, teach), (_NEED, need)):
        run_batches(session, statement, "rows", [{"skill": skill, "other": other} for skill, other in sorted(pairs)])
