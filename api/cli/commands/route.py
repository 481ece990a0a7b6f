"""`route` and `find`: who can do this? `agents`, `tools`, `show` and `status`: what does the registry hold?"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from waygraph.api.cli.options import RECIPES, Groups, Invocation, Texts, principal
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Table
from waygraph.registry.model import shapes
from waygraph.registry.model.nouns import AGENT_KINDS, Agent, AgentKind, Filters, Query, Route, Tool, ToolRoute, Turn
from waygraph.registry.model.process import without_collection
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.validation import FILTER_LISTS, read_history
from waygraph.registry.routing.recipes import BY_OPERATOR, Recipe, recipe_named

Limit = Annotated[int, Option("--limit", "-k", help="How many to give at most.")]
Text = Annotated[str, Argument(metavar="TEXT", help="The request, in plain words.", show_default=False)]


_RERANK_HELP = "openai:MODEL, cross-encoder:MODEL, ranker:FILE or default (WAYGRAPH_RERANK) puts the best 20 in order."
_WALK_HELP = "The model that walks the taxonomy for --recipe taxonomy: openai:MODEL; default: WAYGRAPH_WALK's."
_BY_STEPS_HELP = "Let openai:MODEL split TEXT into its steps, or default: WAYGRAPH_STEPS's."
_HISTORY_HELP = (
    "The turns before the request, oldest first: JSON, a list of {role: user|assistant, text} and "
    "{role: call, tool, outcome: ok|failed}."
)


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """How to rank."""

    recipe: Annotated[str, Option(metavar="NAME", help=f"How to rank: {', '.join(RECIPES)}.")] = "hybrid"
    rerank: Annotated[str, Option(metavar="SPEC", help=_RERANK_HELP)] = ""
    walk: Annotated[str, Option(metavar="SPEC", help=_WALK_HELP)] = ""
    mode: Annotated[
        str, Option(metavar="MODE", help="What it selects: get_all, get_important or get_one; default get_all.")
    ] = ""

    step: Annotated[Texts, Option(metavar="TEXT", help="A step of the request, searched by itself. Repeat.")] = None
    by_steps: Annotated[str, Option(metavar="SPEC", help=_BY_STEPS_HELP)] = ""

    def named_recipe(self) -> Recipe:
        steps_by = self.by_steps if self.by_steps == BY_OPERATOR else ""
        return recipe_named(self.recipe, rerank=self.rerank, walk=self.walk, mode=self.mode, steps_by=steps_by)

    def steps_of(self, text: str, settings: Settings) -> tuple[str, ...]:
        """As they are given, or as a model splits the text here. Raises BadParameter, and as `split_request`."""
        from waygraph.registry.routing.answering import split_request

        steps = tuple(self.step or ())
        if not (text or steps) or (self.by_steps and (steps or not text)):
            raise typer.BadParameter("give a TEXT, --step, or both; --by-steps needs a TEXT alone", param_hint="'TEXT'")
        if self.by_steps in ("", BY_OPERATOR):
            return steps
        split_steps = split_request(text, self.by_steps, settings, os.environ)
        return split_steps if len(split_steps) > 1 else ()


@dataclass(frozen=True, kw_only=True)
class AgentSelection:
    """Which agents."""

    tag: Annotated[Texts, Option(metavar="TAG", help="Only agents with this tag. Repeat for any of several.")] = None
    kind: Annotated[
        Texts, Option(metavar="KIND", help=f"Only agents of this kind: {', '.join(AGENT_KINDS)}. Repeat.")
    ] = None
    agent: Annotated[Texts, Option(metavar="ID", help="Only this agent. Repeat for any of several.")] = None
    without_tag: Annotated[Texts, Option(metavar="TAG", help="No agents with this tag. Repeat.")] = None
    without_kind: Annotated[Texts, Option(metavar="KIND", help="No agents of this kind. Repeat.")] = None
    without_agent: Annotated[Texts, Option(metavar="ID", help="Not this agent. Repeat.")] = None
    reachable: Annotated[bool, Option(help="Leave out agents that `watch` could not reach, or that fail.")] = False
    within: Annotated[str, Option(metavar="PATH", help="Only what is in this category, such as travel/flights.")] = ""
    toolset: Annotated[str, Option(metavar="NAME", help="Only what is in this toolset.")] = ""

    def filters(self) -> Filters:
        """Raises BadParameter for an unknown kind."""
        lists: dict[str, Any] = {field: tuple(getattr(self, name) or ()) for name, field in FILTER_LISTS.items()}
        lists |= {"kinds": _kinds(self.kind, "--kind"), "without_kinds": _kinds(self.without_kind, "--without-kind")}
        return Filters(**lists, reachable=self.reachable, within=self.within, toolset=self.toolset)


def _kinds(names: Sequence[str] | None, option: str) -> tuple[AgentKind, ...]:
    """Raises BadParameter for an unknown kind."""
    for name in names or ():
        if name not in AGENT_KINDS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(AGENT_KINDS)}", param_hint=f"'{option}'")
    return tuple(kind for kind in AGENT_KINDS if kind in (names or ()))


@dataclass(frozen=True, kw_only=True)
class SearchOptions(AgentSelection):
    """What may be found, what came before, and who asks."""

    strict: Annotated[bool, Option(help="Withhold an answer that may not fit, and name what came nearest.")] = False
    history_file: Annotated[Path | None, Option("--history", metavar="FILE", help=_HISTORY_HELP)] = None
    used_tools: Annotated[
        Texts, Option("--used", metavar="TOOL", help="A tool or agent that was called before. Repeat, oldest first.")
    ] = None
    failed_tools: Annotated[
        Texts, Option("--failed", metavar="TOOL", help="A tool or agent whose last call failed. Repeat.")
    ] = None
    group: Groups = None

    def query(self, text: str, limit: int, rank: RankOptions, settings: Settings) -> Query:
        """Raises InvalidQuery, BadParameter, and as `split_request`."""
        calls = [Turn(role="call", tool=tool) for tool in self.used_tools or ()]
        calls += [Turn(role="call", tool=tool, outcome="failed") for tool in self.failed_tools or ()]
        turns = (*(_read_history(self.history_file, settings) if self.history_file else ()), *calls)
        filters, steps = self.filters(), rank.steps_of(text, settings)
        return Query(text=text, limit=limit, filters=filters, strict=self.strict, history=turns, steps=steps)


def _read_history(file: Path, settings: Settings) -> tuple[Turn, ...]:
    most = settings.max_body_bytes
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise typer.BadParameter(f"{file} has more than {most} bytes (WAYGRAPH_MAX_BODY_BYTES)")
        return read_history(json.loads(content))
    except (OSError, ValueError, RecursionError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no JSON"
        raise typer.BadParameter(f"{file} cannot be read: {why}", param_hint="'--history'") from exc


@without_collection()
def route(
    options: Invocation,
    text: Text = "",
    *,
    limit: Limit = 5,
    rank: RankOptions,
    agent_weight: Annotated[float | None, Option(help="Weight of agents, instead of the recipe's.")] = None,
    tool_weight: Annotated[float | None, Option(help="Weight of tools, instead of the recipe's.")] = None,
    search: SearchOptions,
    explain: Annotated[bool, Option(help="Draw the walk, and the votes that put each agent there.")] = False,
    why: Annotated[
        str, Option(metavar="NAME", help="Why not this one? Say where an agent or a tool stands, and what it lacks.")
    ] = "",
) -> None:
    """Find the agents that can do this, best first.

    waygraph route "book a table for four" --explain
    """
    query = search.query(text, limit, rank, options.settings)
    with options.open() as registry:
        ask: Callable[..., Any] = partial(registry.operator.why, why) if why else registry.route
        answer = ask(
            query,
            recipe=rank.named_recipe(),
            agent_weight=agent_weight,
            tool_weight=tool_weight,
            principal=principal(search.group),
        )
    if why:
        options.show(answer, views.placement)
        return
    options.show(answer, views.explained_route if explain else views.route, shapes.route)
    _remark(options, answer)


@without_collection()
def find(
    options: Invocation,
    text: Text = "",
    *,
    limit: Limit = 5,
    rank: RankOptions,
    search: SearchOptions,
    explain: Annotated[bool, Option(help="Draw the walk, and the votes that put each tool there.")] = False,
) -> None:
    """Find the tools that can do this, best first, whoever owns them.

    waygraph find "convert currency"
    """
    query = search.query(text, limit, rank, options.settings)
    with options.open() as registry:
        answer = registry.find_tools(query, recipe=rank.named_recipe(), principal=principal(search.group))
    options.show(answer, views.explained_route if explain else views.route, shapes.tool_route)
    _remark(options, answer)


def _remark(options: Invocation, answer: Route | ToolRoute) -> None:
    for each in answer.notices:
        options.remark(each.text)


def agents(options: Invocation, *, selection: AgentSelection) -> None:
    """List the agents."""
    filters = selection.filters()
    options.answer(lambda each: each.agents_page(filters=filters).items, views.agents, shapes.agents)


def tools(
    options: Invocation,
    agent: Annotated[str | None, Argument(metavar="AGENT", help="Only this agent's.", show_default=False)] = None,
) -> None:
    """List the tools of all agents, or of one."""
    options.answer(lambda registry: registry.tools(agent), views.tools, shapes.tools)


def show_one(
    options: Invocation,
    name: Annotated[str, Argument(metavar="ID", help="An agent's id; agent/tool, or a tool's call name.")],
) -> None:
    """Show all that is known of an agent or a tool."""
    with options.open() as registry:
        match registry.lookup(name):
            case Tool() as tool:
                options.show(tool, views.tool, shapes.tool)
            case Agent() as agent:
                from waygraph.ingest.execution.executor import profile_here

                facts, grants = registry.about(agent.id), profile_here(registry, agent, os.environ)
                table = [Table.of(grants, "its server=access, what, why", title="box")] if grants else []
                document = shapes.about(facts) | {"box": list(map(shapes.shape, grants))}
                options.show(facts, lambda each: [*views.about(each), *table], lambda _: document)


def status(options: Invocation) -> None:
    """Say where the registry is and what it holds."""
    from waygraph.ingest.hosts.hosts import titles_of

    with options.open() as registry:
        summary, sources = registry.status(), [] if options.as_json else registry.sources()
    titles = titles_of(each.name for each in sources)
    options.show(summary, lambda each: views.status(each, sources, titles), shapes.status)
