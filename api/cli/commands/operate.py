"""`set`, `remove`, `sources` and `reindex`: what an operator decides; `changes`, `approve` and `reject`: what sources
changed.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, Texts, json_or_text, offer_texts
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Aside, Block, Cell, Fields, Lines, Table
from waygraph.registry.model import shapes

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Approved, Change, Forgotten, OperatorSettings, Waiting
    from waygraph.registry.operations.agents import ListChanges, RemoveAgent
    from waygraph.registry.operations.oversight import ListUsage
    from waygraph.registry.registry import Registry


def source_name(registry: "Registry", name: str) -> str:
    """The source's name; it may be written as its title, and a file or folder as it was ingested, while its name is the
    whole path. A name takes precedence over a title.

    What is no source's name stays as it is written. Raises BadParameter for the title of several, RegistryNotFound.
    """
    from waygraph.ingest.hosts.hosts import title_of, titles_of

    titles, path = titles_of(source.name for source in registry.sources()), str(Path(name).resolve())
    if name in titles or path in titles:
        return name if name in titles else path
    text = name.casefold()
    places = [each for each, title in titles.items() if text in (title.casefold(), title_of(each).casefold())]
    if len(places) > 1:
        raise typer.BadParameter(f"several sources are called {name!r}; name one by its place: {', '.join(places)}")
    return places[0] if places else name


AgentId = Annotated[str, Argument(metavar="ID", help="An agent's id.")]

sources = typer.Typer(invoke_without_command=True, help="List the sources, or remove one.")


def set_agent(
    options: Invocation,
    name: AgentId,
    *,
    pin: Annotated[bool | None, Option("--pin/--unpin", help="Name it in every answer, or no more.")] = None,
    hide: Annotated[bool | None, Option("--hide/--unhide", help="Keep it out of every answer, or no more.")] = None,
    tag: Annotated[
        Texts, Option(metavar="TAG", help="Tags beside its source's own, instead of those set so far. Repeat.")
    ] = None,
    no_tags: Annotated[bool, Option(help="Take all tags back that were set here.")] = False,
    visible_to: Annotated[Texts, Option(metavar="GROUP", help="Only these groups may see it. Repeat.")] = None,
    everyone: Annotated[bool, Option(help="Take --visible-to back: its source decides.")] = False,
    restore: Annotated[bool, Option(help="Let its source bring a removed agent back.")] = False,
) -> None:
    """Pin, hide, tag or restrict an agent. It survives every ingest.

    waygraph set harbor-git --pin --tag approved
    """
    pairs = {("--tag", "--no-tags"): tag and no_tags, ("--visible-to", "--everyone"): visible_to and everyone}
    for (one, other), are_both_set in pairs.items():
        if are_both_set:
            raise typer.BadParameter(f"{one} and {other} exclude each other", param_hint=f"'{other}'")
    if pin is None and hide is None and not any((tag, no_tags, visible_to, everyone, restore)):
        raise typer.BadParameter("say what to set, such as --pin or --tag TAG", param_hint="'ID'")
    with options.open() as registry:
        setting = registry.operator.set(
            name,
            tags=[] if no_tags else tag or None,
            visible_to=visible_to or None,
            everyone=everyone,
            pinned=pin,
            hidden=hide,
            removed=False if restore else None,
        )
        comes_back = restore and all(agent.id != name for agent in registry.agents())
    options.show(setting, _view_setting)
    if comes_back:
        options.remark(f"{name} comes back with the next ingest of its source")


def set_tool(
    options: Invocation,
    name: Annotated[str, Argument(metavar="ID", help="A tool's id, agent/tool.")],
    *,
    rename: Annotated[str | None, Option(metavar="NAME", help="Another name for callers.")] = None,
    describe: Annotated[str | None, Option(metavar="TEXT", help="Another description.")] = None,
    rename_parameter: Annotated[Texts, Option(metavar="NAME=NEW", help="Another name. Repeat.")] = None,
    describe_parameter: Annotated[Texts, Option(metavar="NAME=TEXT", help="Another description. Repeat.")] = None,
    pin: Annotated[
        Texts, Option(metavar="NAME=VALUE", help="A value, JSON or a text, that every call has. Repeat.")
    ] = None,
    hide_parameter: Annotated[Texts, Option(metavar="NAME", help="Do not show this parameter. Repeat.")] = None,
    hide: Annotated[bool | None, Option("--hide/--unhide", help="Keep it out of every answer, or no more.")] = None,
    question: Annotated[
        Texts, Option(metavar="TEXT", help="What people ask that it can do, in place of those set before. Repeat.")
    ] = None,
    reset: Annotated[bool, Option(help="Take back all that was set before.")] = False,
) -> None:
    """Rename, describe or hide a tool, add questions, change its parameters. It survives every ingest.

    waygraph set-tool harbor-git/merge_pull_request --pin method=squash
    """
    parameters: dict[str, dict[str, Any]] = {each: {"hidden": True} for each in hide_parameter or ()}
    for pairs, key in ((rename_parameter, "name"), (describe_parameter, "description"), (pin, "pin")):
        for each in pairs or ():
            parameter, equals, value = each.partition("=")
            if not equals:
                raise typer.BadParameter(f"{each!r} is not NAME=…", param_hint="'ID'")
            parameters.setdefault(parameter, {})[key] = json_or_text(value) if key == "pin" else value
    fields: dict[str, Any] = {"name": rename, "description": describe, "parameters": parameters or None, "hidden": hide}
    fields |= {"questions": list(question)} if question else {}
    changes = {key: value for key, value in fields.items() if value is not None}
    if not (changes or reset):
        raise typer.BadParameter("say what to set, such as --describe TEXT or --pin NAME=VALUE", param_hint="'ID'")
    with options.open() as registry:
        if reset:
            setting = registry.operator.set_tool(name, dict.fromkeys(fields))
        if changes:
            setting = registry.operator.set_tool(name, changes)
    options.show(setting, _view_setting)


def remove(options: Invocation, request: "RemoveAgent") -> None:
    """Remove an agent, and keep it away whatever its source says."""
    options.perform(request, _view_setting)


@sources.callback()
def list_sources(options: Invocation) -> None:
    """List the sources, or remove one."""
    if options.subcommand:
        return
    from waygraph.ingest.hosts.hosts import titles_of

    with options.open() as registry:
        summaries = registry.sources()
    titles = titles_of(each.name for each in summaries)
    options.show(
        summaries, lambda some: views.sources(some, titles), lambda some: {**shapes.sources(some), "titles": titles}
    )


@sources.command("remove")
def remove_source(
    options: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="The source, or its place, as `waygraph sources` lists them.")],
) -> None:
    """Remove a source, and the agents that only it claimed."""
    options.answer(lambda registry: registry.operator.forget(source_name(registry, name)), _view_forget)


def reindex(
    options: Invocation,
    texts: Annotated[str | None, offer_texts("The texts to embed from now on: {}. Default: as they are.")] = None,
) -> None:
    """Embed everything anew, with another embedder or other texts.

    waygraph --embedder onnx:BAAI/bge-small-en-v1.5 reindex
    """
    from waygraph.api.cli.render.progress import progress_bar

    with options.open_for_reindex() as registry, progress_bar("Embedding") as progress:
        result = registry.reindex(texts=texts, embedder=options.wanted_embedder or None, progress=progress)
    options.show(result, views.write)


_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def changes(
    options: Invocation,
    *,
    since: Annotated[str, Option(metavar="WHEN", help="Only from then on: a time in ISO 8601, or 2h, 3d ago.")] = "",
    waiting: Annotated[bool, Option("--waiting", help="What waits for a decision, and what was rejected.")] = False,
    request: "ListChanges",
) -> None:
    """List what came, and what sources changed of what was known, the newest first.

    waygraph changes --since 2d --agent harbor-git
    """
    if waiting:
        _show_waiting(options, request.agent)
        return
    request = replace(request, since=since_when(since, datetime.now(UTC)))
    records = options.answer(lambda registry: registry.perform(request), _view_changes, shapes.changes)
    if not records:
        options.remark("no change was recorded" + (" since then" if since else ""))


def _show_waiting(options: Invocation, agent: str) -> None:
    def ask(registry: "Registry") -> "list[Waiting]":
        return [each for each in registry.operator.waiting() if agent in ("", each.agent_id)]

    def view(items: "list[Waiting]") -> list[Block]:
        return [Table.of(items, "name=id, since, description, rejected=rejection")]

    if not options.answer(ask, view, lambda items: {"waiting": list(map(shapes.shape, items))}):
        options.remark("nothing waits")


def usage(options: Invocation, *, request: "ListUsage") -> None:
    """Show how often and how fast the gateways of this machine, or a service's, ran each tool.

    waygraph usage --sort errors
    """
    if not options.answer(lambda registry: registry.perform(request), views.usage, request.write):
        options.remark("no call was counted")


_Waiting = Annotated[
    Texts, Argument(metavar="NAME…", help="An agent's id, with all its tools that wait; agent/tool, or a call name.")
]
_AllOf = Annotated[Texts, Option(metavar="SOURCE", help="All that waits of this source. Repeat.")]


def approve(options: Invocation, names: _Waiting = None, *, all_of: _AllOf = None) -> None:
    """Let what waits into routing, as it is now; also accept flagged texts.

    waygraph approve harbor-git
    """
    _decide(options, lambda registry: registry.operator.approve(*_collect_names(registry, names, all_of, "approve")))


def reject(
    options: Invocation,
    names: _Waiting = None,
    *,
    reason: Annotated[str, Option(metavar="TEXT", help="Why; lists and the log of changes show it.")],
    all_of: _AllOf = None,
) -> None:
    """Keep what waits out of routing as it is now; also flagged texts.

    waygraph reject harbor-git/merge_pull_request --reason 'asks for secrets'

    Another text of it waits again; `waygraph approve` undoes it.
    """
    _decide(
        options,
        lambda registry: registry.operator.reject(*_collect_names(registry, names, all_of, "reject"), reason=reason),
    )


def _collect_names(registry: "Registry", names: Texts, all_of: Texts, doing: str) -> list[str]:
    """Raises BadParameter for none."""
    from waygraph.registry.operators.approval import OF_SOURCE

    if not (names or all_of):
        raise typer.BadParameter(f"say what to {doing}, or --all-of SOURCE", param_hint="'NAME'")
    return [*(names or ()), *(f"{OF_SOURCE}{source_name(registry, source)}" for source in all_of or ())]


def _decide(options: Invocation, ask: "Callable[[Registry], Approved]") -> None:
    result = options.answer(ask, lambda each: [Fields.of(each, "agents, tools, wishes, revision")])
    if not (result.agents or result.tools or result.wishes):
        options.remark("nothing of it waited")


def since_when(text: str, now: datetime) -> str:
    """A time in ISO 8601 as it is; `2h` as the time that long before `now`. Raises BadParameter."""
    if ago := _AGO.fullmatch(text.strip()):
        try:
            return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
        except OverflowError:
            return ""
    try:
        datetime.fromisoformat(text or now.isoformat())
    except ValueError:
        message = f"{text!r} is neither a time in ISO 8601 nor one such as 2h or 3d"
        raise typer.BadParameter(message, param_hint="'--since'") from None
    return text


def _view_setting(setting: "OperatorSettings") -> Iterator[Block]:
    columns = f"agent=agent_id, tags, visible to, pinned, hidden, removed{', tools' if setting.tools else ''}"
    audience = "as its source says" if setting.visible_to is None else setting.visible_to or "everyone"
    yield Fields.of(setting, columns, visible_to=lambda _: audience)


def _view_forget(result: "Forgotten") -> Iterator[Block]:
    """The numbers, then each agent that went, with its tools, and the sources that are to be read again."""
    yield Fields((("agents", len(result.agents)), ("tools", len(result.tools)), ("revision", result.revision)))
    if result.agents:
        names: dict[str, list[str]] = {agent_id: [] for agent_id in result.agents}
        for tool_id in result.tools:
            agent_id, _, name = tool_id.partition("/")
            names[agent_id].append(name)
        yield Table(columns=("removed", "tools"), rows=list(names.items()))
    if result.ingest_again:
        yield Table(columns=("ingest again",), rows=[(name,) for name in result.ingest_again])


def _view_changes(records: "Sequence[Change]") -> Iterator[Block]:
    """A line for each, then the texts of each before and after; of what came, its numbers in the line."""
    from waygraph.ingest.hosts.hosts import titles_of

    columns, spare = "time=at, revision, agent=agent_id, tool, change=what, fields, source", ("revision", "source")
    titles = titles_of(each.source for each in records)
    changes = [replace(each, source=titles[each.source]) for each in records]
    yield Table.of(changes, columns, spare=spare, fields=lambda each: _numbers(each) or each.fields)
    for each in records:
        if _numbers(each):
            continue
        before, after = json.loads(each.before), json.loads(each.after)
        rows = [(name, _text(before.get(name)), _text(after.get(name))) for name in {**before, **after}]
        title = f"{each.agent_id}{f'/{each.tool}' if each.tool else ''} {each.what}, {each.at}"
        yield Table(("field", "before", "after"), rows, title)
        if each.flags:
            yield Lines("\n".join(each.flags), title="suspicious")
        if each.covered:
            yield Aside(f"an operator's own words stand over: {', '.join(each.covered)}")


def _numbers(change: "Change") -> str:
    """Of an agent or source that came; empty for another change."""
    counts = json.loads(change.after) if change.is_arrival and change.source else {}
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _text(value: object) -> Cell:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
