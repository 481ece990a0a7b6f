"""What commands are built of: shared options, groups that import a command when it is asked for, lines after `--`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import AgentKind, Filters, Principal, Turn
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.registry import Registry
    from waygraph.registry.storage.local_registry import LocalRegistry


@dataclass(frozen=True, slots=True)
class Invocation:
    """`location` empty: the default registry. `embedder` empty: the registry's own."""

    location: str = ""
    embedder: str = ""

    def settings(self) -> "Settings":
        from waygraph.registry.model.settings import load_settings

        return load_settings()

    def place(self, settings: "Settings") -> str | Path:
        """Where the registry is, or will be."""
        return self.location or settings.default_registry

    def own_place(self, settings: "Settings") -> str | Path:
        """The same, for what needs the registry itself. Raises NeedsRegistry if a service keeps it."""
        from waygraph.registry.storage.location import refuse_service

        place = self.place(settings)
        refuse_service(place)
        return place

    def open(self, settings: "Settings | None" = None) -> "Registry":
        """The registry; `settings`: those that were read already. Raises RegistryUnusable, EmbedderMismatch, …"""
        from waygraph.registry.registry import Registry

        settings = settings or self.settings()
        return Registry.open(self.place(settings), embedder=self.embedder or None, settings=settings)

    def open_own(self, settings: "Settings | None" = None) -> "LocalRegistry":
        """The same, for what works on the graph itself. Raises NeedsRegistry if a service keeps it."""
        return self._open_own(settings or self.settings(), self.embedder)

    def open_for_reindex(self) -> "LocalRegistry":
        """The registry with its own embedder: the one asked for is to come in its place."""
        return self._open_own(replace(self.settings(), embedder=""), "")

    @property
    def wanted_embedder(self) -> str:
        """The spec asked for by option or environment; empty if none was."""
        return self.embedder or self.settings().embedder

    def _open_own(self, settings: "Settings", embedder: str) -> "LocalRegistry":
        from waygraph.registry.storage.local_registry import LocalRegistry

        return LocalRegistry.open(self.own_place(settings), embedder=embedder or None, settings=settings)


def invocation(context: typer.Context) -> Invocation:
    """The options that stand before the command."""
    options = context.obj
    return options if isinstance(options, Invocation) else Invocation()


TextForm = Literal["contextual", "plain", "concat", "tdwa-1", "tdwa-2"]
Policy = Literal["accept", "hold", "strict"]
"""What the core knows and the help repeats, which must not import it; a test compares them."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, in the shape that docs/json-output.md describes.")]
Full = Annotated[bool, typer.Option("--full", help="In a pipe, print descriptions whole.")]
Limit = Annotated[int, typer.Option("--limit", "-k", help="How many to give at most.")]
RecipeName = Annotated[
    str, typer.Option("--recipe", metavar="NAME", help="How to rank: agents, hybrid, lexical, paper, ranks or tools.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only agents with this tag. Repeat for any of several.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only agents of this kind: mcp_server, a2a_agent, skill, openapi, custom. Repeat.",
    ),
]
Agents = Annotated[
    list[str] | None, typer.Option("--agent", metavar="ID", help="Only this agent. Repeat for any of several.")
]
Reachable = Annotated[
    bool, typer.Option("--reachable", help="Leave out agents that `watch` could not reach, or that fail.")
]
Within = Annotated[
    str, typer.Option("--within", metavar="PATH", help="Only what is in this category, such as travel/flights.")
]
InToolset = Annotated[str, typer.Option("--toolset", metavar="NAME", help="Only what is in this toolset.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="See what a member of this group sees. Repeat. Default: everything."),
]


HistoryFile = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="The turns before the request, oldest first: JSON, a list of {role: user|assistant, text} and "
        "{role: call, tool, outcome: ok|failed}.",
    ),
]
UsedTools = Annotated[
    list[str] | None,
    typer.Option("--used", metavar="TOOL", help="A tool or agent that was called before. Repeat, oldest first."),
]
FailedTools = Annotated[
    list[str] | None, typer.Option("--failed", metavar="TOOL", help="A tool or agent whose last call failed. Repeat.")
]


def history(
    file: Path | None, used_tools: Sequence[str] | None, failed_tools: Sequence[str] | None
) -> "tuple[Turn, ...]":
    """The turns of the file, then the calls. Raises InvalidQuery, BadParameter for a file that cannot be read."""
    from waygraph.registry.model.nouns import Turn

    calls = [Turn(role="call", tool=tool) for tool in used_tools or ()]
    calls += [Turn(role="call", tool=tool, outcome="failed") for tool in failed_tools or ()]
    return (*(_read_history(file) if file else ()), *calls)


def _read_history(file: Path) -> "tuple[Turn, ...]":
    import json

    from waygraph.registry.model.settings import load_settings
    from waygraph.registry.model.validation import read_history

    most = load_settings().max_body_bytes
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise typer.BadParameter(f"{file} has more than {most} bytes (WAYGRAPH_MAX_BODY_BYTES)")
        return read_history(json.loads(content))
    except (OSError, ValueError, RecursionError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is no JSON"
        raise typer.BadParameter(f"{file} cannot be read: {why}", param_hint="'--history'") from exc


def json_or_text(text: str) -> Any:
    """What an argument says: JSON where it is JSON."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def filters(
    tags: Sequence[str] | None,
    kinds: Sequence[str] | None,
    agents: Sequence[str] | None,
    *,
    reachable: bool = False,
    within: str = "",
    toolset: str = "",
) -> "Filters":
    """What may be found. Raises BadParameter for an unknown kind."""
    from waygraph.registry.model.nouns import AGENT_KINDS, Filters

    for kind in kinds or ():
        if kind not in AGENT_KINDS:
            raise typer.BadParameter(f"{kind!r} is not one of {', '.join(AGENT_KINDS)}", param_hint="'--kind'")
    chosen_kinds: tuple[AgentKind, ...] = tuple(known_kind for known_kind in AGENT_KINDS if known_kind in (kinds or ()))
    return Filters(
        tags=tuple(tags or ()),
        kinds=chosen_kinds,
        agent_ids=tuple(agents or ()),
        reachable=reachable,
        within=within,
        toolset=toolset,
    )


def principal(groups: Sequence[str] | None) -> "Principal | None":
    """Who asks: a member of these groups, or without any the owner of this machine, who sees everything."""
    from waygraph.registry.model.nouns import Principal

    return Principal(groups=tuple(groups)) if groups else None


LAB = "waygraph-lab"
COMMANDS = "waygraph.commands"
"""The group of entry points by which another package brings commands."""


class LazyCommand(NamedTuple):
    """`place`: `module:thing`, a function or a typer.Typer of `commands`. `summary`: its line in the help.

    With `package`, another package brings the command, and `place` is the name of its entry point.
    """

    place: str
    summary: str
    cls: type[TyperCommand] = TyperCommand
    package: str = ""

    def load(self) -> Any:
        """None if the package that brings it is not installed."""
        if not self.package:
            module, _, attribute = self.place.partition(":")
            return getattr(import_module(f"waygraph.api.cli.commands.{module}"), attribute)
        from importlib.metadata import entry_points

        for entry_point in entry_points(group=COMMANDS, name=self.place):
            return entry_point.load()
        return None


class LazyGroup(TyperGroup):
    """A run needs one command, and importing all of them takes longer than a route."""

    lazy: Mapping[str, LazyCommand]
    """By name, in the order of the help."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of the library
        return list(self.lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - of the library
        if cmd_name not in self.commands and cmd_name in self.lazy:
            self.add_command(_import_command(cmd_name, self.lazy[cmd_name]), cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.lazy:  # the library names the nearest of those that it has
            for name in self.lazy:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of the library
        """Each in one line, which is not cut, and without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])


_ANY_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True}


def _refusal(command: LazyCommand) -> Callable[[], None]:
    def refuse() -> None:
        from waygraph.registry.model.errors import MissingExtra

        raise MissingExtra(f"waygraph {command.place}", package=command.package)

    return refuse


def _import_command(name: str, command: LazyCommand) -> Any:
    around = typer.Typer(rich_markup_mode=None)
    thing = command.load()
    if thing is None:
        around.command(name, add_help_option=False, context_settings=_ANY_ARGUMENTS)(_refusal(command))
    elif isinstance(thing, typer.Typer):
        around.add_typer(thing, name=name)
    else:
        around.command(name, cls=command.cls)(thing)
    return get_group(around).commands[name]


class DefaultGroup(TyperGroup):
    """A group whose first command needs no name: `waygraph eval DIR` is `waygraph eval run DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        has_name = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if has_name or not args else [next(iter(self.commands)), *args])


_AFTER_DASHES = "waygraph.after_dashes"


class CommandAfterDashes(TyperCommand):
    """Keeps what stands after `--` apart: it is another program's, options included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_AFTER_DASHES] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARG...]"]


def after_dashes(context: typer.Context) -> list[str]:
    """The other program's command line; empty if there is none."""
    return list(context.meta.get(_AFTER_DASHES, ()))
