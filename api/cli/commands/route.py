"""`route` and `find`: who can do this? `agents`, `tools`, `show` and `status`: what does the registry hold?"""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import (
    Agents,
    AsJson,
    FailedTools,
    Full,
    Groups,
    HistoryFile,
    InToolset,
    Kinds,
    Limit,
    Reachable,
    RecipeName,
    Tags,
    UsedTools,
    Within,
    filters,
    history,
    invocation,
    principal,
)
from waygraph.api.cli.render.output import note, show
from waygraph.registry.model.process import without_collection

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Route, ToolRoute


Rerank = Annotated[
    str,
    typer.Option(
        "--rerank",
        metavar="SPEC",
        help="openai:MODEL, cross-encoder:MODEL, ranker:FILE or default (WAYGRAPH_RERANK) puts the best 20 in order.",
    ),
]
Walk = Annotated[
    str,
    typer.Option(
        "--walk",
        metavar="SPEC",
        help="The model that walks the taxonomy for --recipe taxonomy: openai:MODEL; default: WAYGRAPH_WALK's.",
    ),
]
WalkMode = Annotated[
    str,
    typer.Option("--mode", metavar="MODE", help="What it selects: get_all, get_important or get_one; default get_all."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Withhold an answer that may not fit, and name what came nearest.")
]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The request, in plain words.", show_default=False)]


EVEN = 0.5
"""A confidence is a probability; below this one, nothing fits is the likelier answer."""


@without_collection()
def route(
    context: typer.Context,
    text: Text = "",
    *,
    step: Annotated[
        list[str] | None, typer.Option("--step", metavar="TEXT", help="A step of the request, instead of TEXT. Repeat.")
    ] = None,
    by_steps: Annotated[
        str, typer.Option("--by-steps", metavar="SPEC", help="Let openai:MODEL split TEXT into its steps.")
    ] = "",
    limit: Limit = 5,
    recipe: RecipeName = "hybrid",
    rerank: Rerank = "",
    walk: Walk = "",
    mode: WalkMode = "",
    agent_weight: Annotated[float | None, typer.Option(help="Weight of agents, instead of the recipe's.")] = None,
    tool_weight: Annotated[float | None, typer.Option(help="Weight of tools, instead of the recipe's.")] = None,
    tag: Tags = None,
    kind: Kinds = None,
    agent: Agents = None,
    reachable: Reachable = False,
    within: Within = "",
    toolset: InToolset = "",
    strict: Strict = False,
    history_file: HistoryFile = None,
    used_tools: UsedTools = None,
    failed_tools: FailedTools = None,
    group: Groups = None,
    explain: Annotated[bool, typer.Option("--explain", help="Draw the votes that put each agent there.")] = False,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Find the agents that can do this, best first.

    waygraph route "book a table for four" --explain
    """
    if bool(text) == bool(step) or (by_steps and step):
        raise typer.BadParameter("give a TEXT, or one --step or more without --by-steps", param_hint="'TEXT'")
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes
    from waygraph.registry.model.nouns import Query
    from waygraph.registry.routing.recipes import recipe_named

    selection = filters(tag, kind, agent, reachable=reachable, within=within, toolset=toolset)
    turns = history(history_file, used_tools, failed_tools)
    steps = tuple(step or ())
    if by_steps:
        from waygraph.registry.routing.steps import split_request

        text, steps = "", split_request(text, by_steps, invocation(context).settings(), os.environ)
    query = Query(text=text, steps=steps, limit=limit, filters=selection, strict=strict, history=turns)
    with invocation(context).open() as registry:
        answer = registry.route(
            query,
            recipe=recipe_named(recipe, rerank=rerank, walk=walk, mode=mode),
            agent_weight=agent_weight,
            tool_weight=tool_weight,
            principal=principal(group),
        )
    view = catalog_views.explained_route if explain else catalog_views.route
    show(answer, shapes.route, view, as_json, brief=not full)
    _remark(answer, as_json)


@without_collection()
def find(
    context: typer.Context,
    text: Text,
    *,
    limit: Limit = 5,
    recipe: RecipeName = "hybrid",
    rerank: Rerank = "",
    walk: Walk = "",
    mode: WalkMode = "",
    tag: Tags = None,
    kind: Kinds = None,
    agent: Agents = None,
    reachable: Reachable = False,
    within: Within = "",
    toolset: InToolset = "",
    strict: Strict = False,
    history_file: HistoryFile = None,
    used_tools: UsedTools = None,
    failed_tools: FailedTools = None,
    group: Groups = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the input schema of each tool too.")] = False,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Find the tools that can do this, best first, whoever owns them.

    waygraph find "convert currency" --schema
    """
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes
    from waygraph.registry.model.nouns import Query
    from waygraph.registry.routing.recipes import recipe_named

    selection = filters(tag, kind, agent, reachable=reachable, within=within, toolset=toolset)
    turns = history(history_file, used_tools, failed_tools)
    query = Query(text=text, limit=limit, filters=selection, strict=strict, history=turns)
    with invocation(context).open() as registry:
        answer = registry.find_tools(
            query, recipe=recipe_named(recipe, rerank=rerank, walk=walk, mode=mode), principal=principal(group)
        )
    view = catalog_views.tool_route_with_schemas if schema else catalog_views.tool_route
    show(answer, shapes.tool_route, view, as_json, brief=not full)
    _remark(answer, as_json)


def _remark(answer: "Route | ToolRoute", as_json: bool) -> None:
    """What limits the answer, why it is empty, and what came nearest; JSON holds it already."""
    if not as_json:
        note(answer.notice)
        note(f"{answer.reason}; nearest: {', '.join(answer.nearest)}" if answer.nearest else answer.reason)
        if answer.matches and answer.confidence is not None and answer.confidence < EVEN and not sys.stdout.isatty():
            note(f"confidence {answer.confidence:.2f}: it is likelier that nothing fits")  # a terminal shows it anyhow


def agents(
    context: typer.Context,
    *,
    tag: Tags = None,
    kind: Kinds = None,
    within: Within = "",
    toolset: InToolset = "",
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """List the agents."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        items = registry.agents_page(filters=filters(tag, kind, None, within=within, toolset=toolset)).items
    show(items, shapes.agents, catalog_views.agents, as_json, brief=not full)


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
        items = registry.tools(agent)
    show(items, shapes.tools, catalog_views.tools, as_json, brief=not full)


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
            case Tool() as tool:
                show(tool, shapes.tool, catalog_views.tool, as_json)
            case Agent(id=agent_id):
                show(registry.about(agent_id), shapes.about, catalog_views.about, as_json)


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Say where the registry is and what it holds."""
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        show(registry.status(), shapes.status, catalog_views.status, as_json)
