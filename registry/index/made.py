"""What a generation holds of each entity, made once: for the next generation most entities are the same."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from waygraph.registry.index.documents import agent_document, agent_names, tool_document, tool_names, tool_record
from waygraph.registry.index.snapshot import Snapshot
from waygraph.registry.model import Agent, Tool


@dataclass(frozen=True, slots=True)
class MadeOfTool:
    """`words` are the terms of its text, `record` its line, `names` what it answers to."""

    tool: Tool
    owner: Agent
    words: Sequence[str]
    record: bytes
    names: tuple[str, ...]

    def still_holds(self, tool: Tool, owner: Agent) -> bool:
        return self.tool == tool and (self.owner.id, self.owner.name) == (owner.id, owner.name)


@dataclass(frozen=True, slots=True)
class MadeOfAgent:
    agent: Agent
    tools: Sequence[MadeOfTool]
    words: Sequence[str]
    names: tuple[str, ...]

    def still_holds(self, agent: Agent, tools: Sequence[MadeOfTool]) -> bool:
        same_tools = len(tools) == len(self.tools) and all(a is b for a, b in zip(tools, self.tools, strict=True))
        return same_tools and self.agent == agent


@dataclass(frozen=True, slots=True)
class Made:
    """By id; of agents and tools in the snapshot's order."""

    agents: Mapping[str, MadeOfAgent] = field(default_factory=dict)
    tools: Mapping[str, MadeOfTool] = field(default_factory=dict)


def made_of(snapshot: Snapshot, before: Made) -> Made:
    """Of all entities; what was made before and still holds is not made again."""
    owners = {agent.id: agent for agent in snapshot.agents}
    tools = {tool.id: _made_of_tool(tool, owners[tool.agent_id], before) for tool in snapshot.tools}
    owned: dict[str, list[MadeOfTool]] = {agent.id: [] for agent in snapshot.agents}
    for made in tools.values():
        owned[made.tool.agent_id].append(made)
    return Made({agent.id: _made_of_agent(agent, owned[agent.id], before) for agent in snapshot.agents}, tools)


def _made_of_tool(tool: Tool, owner: Agent, before: Made) -> MadeOfTool:
    known = before.tools.get(tool.id)
    if known is not None and known.still_holds(tool, owner):
        return known
    line = json.dumps(tool_record(tool), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    return MadeOfTool(tool, owner, tool_document(owner, tool), line, tuple(tool_names(owner, tool)))


def _made_of_agent(agent: Agent, tools: Sequence[MadeOfTool], before: Made) -> MadeOfAgent:
    known = before.agents.get(agent.id)
    if known is not None and known.still_holds(agent, tools):
        return known
    words = agent_document(agent, (made.tool for made in tools))
    return MadeOfAgent(agent, tools, words, tuple(agent_names(agent)))
