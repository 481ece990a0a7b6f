"""The commands of a program, each imported when it is first asked for: a run needs one of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.main import get_group

from waygraph.api.cli.quick import QuickCommand

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
