"""Commands that read their texts and numbers without pydantic.

typer hands every value to a pydantic adapter, and importing pydantic takes longer than a route. What needs no
adapter (an option not given, a text, a number) is read here; all else goes typer's way, errors included.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

type Parameter = TyperArgument | TyperOption


class QuickCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _quickened(super().get_params(ctx))


class QuickGroup(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _quickened(super().get_params(ctx))


class DefaultGroup(QuickGroup):
    """A group whose first command needs no name: `waygraph eval DIR` is `waygraph eval run DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [next(iter(self.commands)), *args])


class _QuickCoercion:
    """Stands before typer's own coercion of one parameter, which is made only if it is needed."""

    def __init__(self, parameter: Parameter) -> None:
        self._typers = parameter.get_runtime_param
        self._annotation = parameter.type_descriptor.annotation

    def coerce(self, value: Any, param: Parameter, ctx: Any) -> Any:
        try:
            return _within(_read(value, self._annotation, several=param.multiple or param.nargs == -1), param)
        except ValueError:
            return self._typers().coerce(value, param=param, ctx=ctx)


def _quickened(parameters: list[Any]) -> list[Any]:
    """The same parameters, each with the quick coercion before its own."""
    for parameter in parameters:
        if isinstance(parameter, (TyperArgument, TyperOption)) and "get_runtime_param" not in vars(parameter):
            coercion = _QuickCoercion(parameter)
            setattr(parameter, "get_runtime_param", lambda coercion=coercion: coercion)  # noqa: B010 - it is a method
    return parameters


def _within(value: Any, parameter: Parameter) -> Any:
    """The value itself. Raises ValueError for a number outside of the parameter's range."""
    least, most = (getattr(parameter, end, None) for end in ("min", "max"))
    if isinstance(value, (int, float)) and not ((least is None or least <= value) and (most is None or value <= most)):
        raise ValueError(value)
    return value


def _read(value: Any, annotation: Any, *, several: bool) -> Any:
    """The value in the type wanted. Raises ValueError for what is not read here."""
    if value is None:
        return () if several else None
    if annotation == list[str] and isinstance(value, (list, tuple)):
        return list(value)
    if annotation in (str, int, float) and isinstance(value, (str, int, float)):
        return annotation(value)
    raise ValueError(value)


# A command line after `--`: `waygraph ingest -- uvx mcp-server-time`.


_KEPT = "waygraph.after_dashes"


class CommandAfterDashes(QuickCommand):
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


# The commands of a program, each imported when it is first asked for: a run needs one of them.


type Command = Any
"""typer's, which keeps its class to itself."""


class OnDemand(NamedTuple):
    """`place`: `module:thing`, a function or a typer.Typer of `commands`. `told`: its line in the list of commands."""

    place: str
    told: str


class CommandsOnDemand(Mapping[str, Command]):
    """By name, in order."""

    def __init__(self, commands: Mapping[str, OnDemand], classes: Mapping[str, type[QuickCommand]]) -> None:
        self._commands, self._classes = commands, classes
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> Command:
        if name not in self._made:
            self._made[name] = self._new(name, self._commands[name].place)
        return self._made[name]

    def _new(self, name: str, place: str) -> Command:
        module, _, attribute = place.partition(":")
        thing = getattr(import_module(f"waygraph.api.cli.commands.{module}"), attribute)
        around = typer.Typer(rich_markup_mode=None)
        if isinstance(thing, typer.Typer):
            around.add_typer(thing, name=name)
        else:
            around.command(name, cls=self._classes.get(name, QuickCommand))(thing)
        return get_group(around).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)
