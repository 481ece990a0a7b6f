"""A skill has no tool of its own that gives its text, and many have no tools at all: one stands for it, in no index."""

from typing import TYPE_CHECKING

from waygraph.registry.discovery.naming import owner_of
from waygraph.registry.identity import call_name, tool_id
from waygraph.registry.model import Agent, Filters, Principal, Tool

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry

READ = "read"


def reading_tool(skill: Agent) -> Tool:
    """Takes nothing, and gives the skill's text."""
    return Tool(
        id=tool_id(skill.id, READ),
        agent_id=skill.id,
        name=READ,
        call_name=call_name(skill.id, READ),
        description=skill.description,
        input_schema='{"type":"object"}',
        annotations='{"readOnlyHint":true}',
    )


def skill_read(
    registry: "Registry", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> Tool | None:
    """The tool that reads the skill of this id, or whose own id or call name this is. Raises UnknownName if it is of a
    hidden one.
    """
    skills = registry.agents_page(filters=Filters(kinds=("skill",)), principal=principal).items
    for listed in skills:
        tool = reading_tool(listed.agent)
        if name in (listed.agent.id, tool.id, tool.call_name) and (agent_ids is None or tool.agent_id in agent_ids):
            owner_of(registry, tool, principal)
            return tool
    return None
