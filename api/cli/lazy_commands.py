"""Groups of commands, each imported when it is first asked for; and command lines after `--`."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class LazyCommand(NamedTuple):
    """`place`: `module:thing`, a function or a typer.Typer of `commands`. `summary`: its line in the help."""

    place: str
    summary: str
    cls: type[TyperCommand] = TyperCommand


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


def _import_command(name: str, command: LazyCommand) -> Any:
    module, _, attribute = command.place.partition(":")
    thing = getattr(import_module(f"waygraph.api.cli.commands.{module}"), attribute)
    around = typer.Typer(rich_markup_mode=None)
    if isinstance(thing, typer.Typer):
        around.add_typer(thing, name=name)
    else:
        around.command(name, cls=command.cls)(thing)
    return get_group(around).commands[name]


class DefaultGroup(TyperGroup):
    """A group whose first command needs no name: `waygraph eval DIR` is `waygraph eval run DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [next(iter(self.commands)), *args])


# A command line after `--`: `waygraph ingest -- uvx mcp-server-time`.


_KEPT = "waygraph.after_dashes"


class CommandAfterDashes(TyperCommand):
    """Keeps what stands after `--` apart: it is another program's, options included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_KEPT] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARG...]"]


def after_dashes(context: typer.Context) -> list[str]:
    """The other program's command line; empty if there is none."""
    return list(context.meta.get(_KEPT, ()))
