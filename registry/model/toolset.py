"""A toolset: a named choice of tools, agents and tags, and which of the tools that are there it includes."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from waygraph.registry.model.nouns import Agent

RULE = ("description", "tools", "agents", "tags", "callers")
"""What an operator says of a toolset."""


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
        inclusions = frozenset(self.includes)
        rules = ((self.tools, inclusions), (self.agents, agents), (self.tags, tags))
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
