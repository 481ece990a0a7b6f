"""`agents`, `tools`, `show`, `status`: what the registry holds."""

from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import AsJson, Kinds, Tags, filters
from waygraph.api.cli.output import show

if TYPE_CHECKING:
    from waygraph.api.cli.pages import AgentPage
    from waygraph.registry.registry import Registry


def agents(context: typer.Context, tag: Tags = None, kind: Kinds = None, as_json: AsJson = False) -> None:
    """List the agents."""
    from collections import Counter

    from waygraph.api.cli import shapes, views
    from waygraph.api.cli.pages import Listed

    wanted = filters(tag, kind, None)
    with invocation(context).open() as registry:
        owned = Counter(tool.agent_id for tool in registry.tools())
        listed = [
            Listed(agent, owned[agent.id])
            for agent in registry.agents()
            if (not wanted.kinds or agent.kind in wanted.kinds)
            and (not wanted.tags or not set(wanted.tags).isdisjoint(agent.tags))
        ]
    show(listed, shapes.agents, views.agents, as_json)


def tools(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Only this agent's.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """List the tools of all agents, or of one."""
    from waygraph.api.cli import shapes, views

    with invocation(context).open() as registry:
        listed = registry.tools(agent or None)
    show(listed, shapes.tools, views.tools, as_json)


def show_one(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="An agent's id; agent/tool, or a tool's call name.")],
    as_json: AsJson = False,
) -> None:
    """Show all that is known of an agent or a tool."""
    from waygraph.api.cli import shapes, views
    from waygraph.registry.model import Agent, Tool

    with invocation(context).open() as registry:
        match registry.named(name):
            case Tool() as found:
                show(found, shapes.tool, views.tool, as_json)
            case Agent(id=agent_id):
                show(_page(registry, agent_id), shapes.agent_page, views.agent_page, as_json)


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Say where the registry is and what it holds."""
    from waygraph.api.cli import shapes, views

    with invocation(context).open() as registry:
        show(registry.status(), shapes.status, views.status, as_json)


def _page(registry: "Registry", agent_id: str) -> "AgentPage":
    from waygraph.api.cli.pages import AgentPage
    from waygraph.registry.graph.reading import read_settings

    agent = registry.agent(agent_id)
    settings = registry.read(read_settings).get(agent_id)
    return AgentPage(
        agent=agent,
        tools=tuple(registry.tools(agent_id)),
        settings=settings,
        sources=tuple(source for source in registry.sources() if agent_id in source.agent_ids),
    )
