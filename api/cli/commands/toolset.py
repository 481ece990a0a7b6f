"""`toolset`: named choices of tools and agents, each an endpoint of MCP and a filter."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Groups, Invocation, principal
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Block, Fields, Table
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import InvalidSetting, SourceError

if TYPE_CHECKING:
    from waygraph.registry.operations.groupings import GetToolset, RemoveToolset, SetToolset
    from waygraph.registry.operators.toolset import Toolset

toolset = typer.Typer(no_args_is_help=True, help="Make, list and remove named choices of tools and agents.")


Description = Annotated[str, Option(metavar="TEXT", help="What it is for.")]
Part = StrEnum("Part", "tools agents tags callers description")
"""What of a toolset may be taken away."""


@toolset.command()
def create(options: Invocation, *, request: "SetToolset", description: Description = "") -> None:
    """Make a toolset: an MCP endpoint /NAME/mcp of a service, and a filter. What comes later and fits joins it.

    waygraph toolset create money --agent bureau-fx --tag finance
    """
    with options.open() as registry:
        if any(each.name == request.name for each in registry.toolsets()):
            raise InvalidSetting(f"there is a toolset {request.name!r}; `waygraph toolset update` changes it")
        new_toolset = registry.operator.set_toolset(**vars(replace(request, description=description)))
    options.show(new_toolset, _view_toolset)


@toolset.command()
def update(
    options: Invocation,
    *,
    request: "SetToolset",
    description: Description = "",
    clear: Annotated[list[Part] | None, Option(help="Take this part of it away. Repeat.")] = None,
) -> None:
    """Change a toolset: what is given stands in place of what was; without any option it is only set anew.

    waygraph toolset update money --agent bureau-fx --agent ledgerleaf --clear tags
    """
    changes = replace(request, description=description).sent_fields()
    changes |= {str(each): "" if each is Part.description else () for each in clear or ()}
    with options.open() as registry:
        new_toolset = registry.operator.set_toolset(**registry.toolset(request.name).rule | changes)
    options.show(new_toolset, _view_toolset)


@toolset.command("apply")
def apply_file(
    options: Invocation,
    file: Annotated[Path, Argument(metavar="FILE", help="TOML, YAML or JSON: `toolsets`, by name.")],
    *,
    prune: Annotated[bool, Option(help="Remove toolsets that the file does not name.")] = False,
) -> None:
    """Set the toolsets of a file, each whole, and show all that there are.

    waygraph toolset apply toolsets.toml
    """
    file_toolsets = _read(file)
    with options.open() as registry:
        for each in file_toolsets:
            registry.operator.set_toolset(each.name, **each.rule)
        for former in registry.toolsets() if prune else ():
            if all(former.name != each.name for each in file_toolsets):
                registry.operator.remove_toolset(former.name)
        toolsets = registry.toolsets()
    options.show(toolsets, _view_toolsets, shapes.toolsets)


@toolset.command("list")
def list_toolsets(options: Invocation, *, group: Groups = None) -> None:
    """List the toolsets."""
    options.answer(lambda registry: registry.toolsets(principal=principal(group)), _view_toolsets, shapes.toolsets)


@toolset.command("show")
def show_toolset(options: Invocation, request: "GetToolset", *, group: Groups = None) -> None:
    """Show a toolset: what it names, the tools it includes now, and what is not there."""
    options.perform(request, _view_toolset, principal(group))


@toolset.command()
def remove(options: Invocation, request: "RemoveToolset") -> None:
    """Remove a toolset. Its tools stay."""
    options.perform(request, views.write)


def _view_toolset(toolset: "Toolset") -> Iterator[Block]:
    columns = "toolset=name, description, tools, agents, tags, callers, members, not there=missing"
    yield Fields.of(toolset, columns, callers=lambda each: each.callers or "whoever may see anything in it")
    yield Table(columns=("tool",), rows=[(each,) for each in toolset.includes])


def _view_toolsets(toolsets: "Sequence[Toolset]") -> Iterator[Block]:
    rows = [(each.name, len(each.includes), len(each.members), each.callers, each.description) for each in toolsets]
    yield Table(columns=("toolset", "tools", "agents", "callers", "description"), rows=rows)


def _read(file: Path) -> "list[Toolset]":
    """Raises InvalidSetting, which names the file."""
    from waygraph.ingest.sources.parse import parse_yaml
    from waygraph.registry.model.foreign_text import toml_document
    from waygraph.registry.operators.toolset import stated_toolset

    try:
        text = file.read_text(encoding="utf-8")
        document = toml_document(text) if file.suffix == ".toml" else parse_yaml(str(file), text)  # JSON is YAML
        toolsets = document.get("toolsets") if isinstance(document, dict) and len(document) == 1 else None
        if not isinstance(toolsets, dict) or not all(isinstance(each, dict) for each in toolsets.values()):
            raise InvalidSetting("expected `toolsets`, by name, each with tools, agents or tags, and nothing beside")
        return [stated_toolset(**{**rule, "name": name}) for name, rule in toolsets.items()]
    except (OSError, ValueError, RecursionError, SourceError, InvalidSetting) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidSetting(f"{file} holds no toolsets: {reason}") from error
