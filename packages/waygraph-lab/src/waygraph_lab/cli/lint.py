"""`lint`: how often each tool wins requests for it, who wins the rest, and what to add to its description."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import Block, Lines, Table, note, show
from waygraph.api.cli.render.progress import progress_bar
from waygraph.registry.model.shapes import shape

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Tool
    from waygraph.registry.registry import Registry
    from waygraph_lab.evaluation.findability import Findability, Request


def lint(
    context: typer.Context,
    name: Annotated[
        str,
        Argument(metavar="NAME", help="An agent's id, or agent/tool. Default: all.", show_default=False),
    ] = "",
    *,
    requests: Annotated[
        Path | None,
        Option(metavar="FILE", help="Also judge by these: as queries.jsonl of a dataset, with gold_tools."),
    ] = None,
    text: Annotated[
        str,
        Option("--try", metavar="TEXT", help="Show what another description of the one tool would win; or its file."),
    ] = "",
    by_steps: Annotated[
        str, Option(metavar="SPEC", help="openai:MODEL splits each request into steps before the search.")
    ] = "",
    fail_under: Annotated[
        float, Option(metavar="PERCENT", min=0, max=100, help="Exit 1 if fewer of all requests are won.")
    ] = 0,
    limit: Annotated[int, Option("--limit", "-k", min=0, help="Tools shown, the least found first; 0: all.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Measure how often each tool wins requests for it, and say who wins the rest and what to add.

    waygraph lint harbor-git --fail-under 80

    waygraph lint harbor-git/blame_lines --try "Show who last changed each line of a file."

    Requests are made of a tool's own texts by fixed rules, without a language model. --try changes nothing.
    """
    from waygraph.registry.registry import require_local
    from waygraph.registry.routing.recipes import DEFAULT_RECIPE
    from waygraph_lab.datasets.trials import named_recipes
    from waygraph_lab.evaluation.asking import metered
    from waygraph_lab.evaluation.findability import described, measure, requests_for

    options = invocation(context)
    with options.open_own() if text else options.open() as registry:
        tools = _chosen_tools(registry, name)
        offers = _offered_questions(registry, tools[0]) if len(tools) == 1 else []
        if text and len(tools) != 1:
            raise typer.BadParameter("it needs the NAME of one tool, agent/tool", param_hint="'--try'")
        asked = requests_for(registry, tools, _read_requests(registry, requests) if requests else ())
        (recipe,) = named_recipes([DEFAULT_RECIPE], steps_by=by_steps) if by_steps else (DEFAULT_RECIPE,)
        if by_steps:
            note(f"at most {sum(map(len, asked.values())) * (2 if text else 1):,} calls of {by_steps}")
        tried: list[Findability] = []
        with metered() as meter:
            with progress_bar("Asking") as progress:
                found = measure(registry, asked, progress, recipe)
            if text:
                with described(require_local(registry), {tools[0].id: _description(text)}) as copy:
                    tried = measure(copy, asked, recipe=recipe)
        if meter.calls:
            note(meter.text)
        if text:
            note(f"to set it: waygraph set-tool {tools[0].id} --describe TEXT")
    judged = tried or found
    count, first = sum(each.requests for each in judged), sum(each.first for each in judged)
    document = {"requests": count, "first": first, "tools": found[: limit or None], "tried": tried, "offers": offers}
    show(document, shape, lambda _: _view(found[: limit or None], tried, offers), as_json)
    share = 100 * first / count if count else 0.0
    if faulty := [each.tool_id for each in judged if each.faults]:
        part = faulty[: limit or None]
        note(f"{len(part)} of {len(faulty)} faulty descriptions: {', '.join(part)}")
    note(f"{len(judged)} tools win {share:.1f} % of {count} requests")
    if share < fail_under:
        note(f"that is under {fail_under:g} %")
        raise typer.Exit(1)


def _chosen_tools(registry: "Registry", name: str) -> "Sequence[Tool]":
    """All, those of an agent, or one. Raises UnknownName."""
    from waygraph.registry.model.nouns import Tool

    named = registry.lookup(name) if name else None
    if isinstance(named, Tool):
        return [named]
    return registry.tools(named.id if named else None)


def _read_requests(registry: "Registry", file: Path) -> "list[Request]":
    """Raises InvalidDataset, with file and line, also for a tool that the registry does not hold."""
    from waygraph_lab.datasets.conversations import CatalogueNames
    from waygraph_lab.datasets.folder import read_queries
    from waygraph_lab.evaluation.findability import Request

    known = CatalogueNames(
        {agent.id: agent.id for agent in registry.agents()}, frozenset(tool.id for tool in registry.tools())
    )
    needs = [need for question in read_queries(file, known) for need in (question.need, *question.steps)]
    return [Request(text=need.text, right=right) for need in needs for right in need.gold_tools]


def _offered_questions(registry: "Registry", tool: "Tool") -> list[str]:
    """Made of its schema, for somebody to approve; without those that its source states."""
    from waygraph_lab.evaluation.schema_questions import schema_questions

    return [each for each in schema_questions(registry.agent(tool.agent_id), tool) if each not in tool.questions]


def _description(text: str) -> str:
    """Of the file of this name, else the text itself. Raises StorageFailed."""
    from waygraph.registry.model.errors import StorageFailed

    try:
        return Path(text).read_text(encoding="utf-8").strip() if Path(text).is_file() else text
    except (OSError, UnicodeDecodeError) as error:
        raise StorageFailed(f"{text} cannot be read: {error}") from error


def _view(found: "Sequence[Findability]", tried: "Sequence[Findability]", offers: Sequence[str]) -> Iterator[Block]:
    """A line a tool; of one alone also the requests that it loses, and questions to approve."""
    columns = "tool=tool_id, requests, won=first, in first 5=top, won by, wrong=faults, add=sentence"
    yield Table.of(found, columns, won_by=_winners)
    if tried:
        yield Table.of(tried, columns, "with the other description", won_by=_winners)
    if len(found) == 1 and (lost := (tried or found)[0].lost):
        yield Lines("\n".join(lost), title="lost")
    if offers:
        yield Lines("\n".join(offers), title="to approve, as `questions` of the tool in its source")


def _winners(found: "Findability") -> list[str]:
    return [f"{name} {count}" for name, count in found.winners.items()]
