"""`agents`, `tools`, `show`, `status`: what the registry holds."""

from typing import Annotated

import typer

from waygraph.api.cli.options import AsJson, Full, Kinds, Tags, filters, invocation
from waygraph.api.cli.render.output import show


def agents(
    context: typer.Context, tag: Tags = None, kind: Kinds = None, full: Full = False, as_json: AsJson = False
) -> None:
    """List the agents."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        listed = registry.agents_page(filters=filters(tag, kind, None)).items
    show(listed, shapes.agents, catalog_views.agents, as_json, brief=not full)


def tools(
    context: typer.Context,
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this agent's.", show_default=False)] = None,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """List the tools of all agents, or of one."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        listed = registry.tools(agent)
    show(listed, shapes.tools, catalog_views.tools, as_json, brief=not full)


def show_one(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="An agent's id; agent/tool, or a tool's call name.")],
    as_json: AsJson = False,
) -> None:
    """Show all that is known of an agent or a tool."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes
    from waygraph.registry.model.nouns import Agent, Tool

    with invocation(context).open() as registry:
        match registry.lookup(name):
            case Tool() as found:
                show(found, shapes.tool, catalog_views.tool, as_json)
            case Agent(id=agent_id):
                show(registry.about(agent_id), shapes.about, catalog_views.about, as_json)


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Say where the registry is and what it holds."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        show(registry.status(), shapes.status, catalog_views.status, as_json)
