"""`set`, `remove`, `sources` and `reindex`: what an operator decides."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import AsJson, TextForm, invocation
from waygraph.api.cli.render.output import note, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waygraph.registry.registry import Registry


# What a person writes for a source that the registry holds.


def held_source(registry: "Registry", written: str) -> str:
    """Its name; a file or folder may be written as it was ingested, while its name is the whole path.

    What is no source's name stays as it is written. Raises RegistryNotFound.
    """
    held = {source.name for source in registry.sources()}
    path = str(Path(written).resolve())
    return path if written not in held and path in held else written


AgentId = Annotated[str, typer.Argument(metavar="ID", help="An agent's id.")]

sources = typer.Typer(invoke_without_command=True, help="List the sources, or forget one.")


def set_agent(
    context: typer.Context,
    name: AgentId,
    *,
    pin: Annotated[bool | None, typer.Option("--pin/--unpin", help="Name it in every answer, or no more.")] = None,
    hide: Annotated[
        bool | None, typer.Option("--hide/--unhide", help="Keep it out of every answer, or no more.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Tags beside its source's own, instead of those set so far. Repeat."),
    ] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Take all tags back that were set here.")] = False,
    visible_to: Annotated[
        list[str] | None,
        typer.Option("--visible-to", metavar="GROUP", help="Only these groups may see it. Repeat."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="Take --visible-to back: its source decides.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Let its source bring a removed agent back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pin, hide, tag or restrict an agent. It survives every ingest.

    waygraph set harbor-git --pin --tag approved
    """
    _refuse_both(tag, no_tags, "--tag", "--no-tags")
    _refuse_both(visible_to, everyone, "--visible-to", "--everyone")
    if pin is None and hide is None and not any((tag, no_tags, visible_to, everyone, restore)):
        raise typer.BadParameter("say what to set, such as --pin or --tag TAG", param_hint="'ID'")
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        said = registry.set(
            name,
            tags=[] if no_tags else tag or None,
            visible_to=visible_to or None,
            everyone=everyone,
            pinned=pin,
            hidden=hide,
            removed=False if restore else None,
        )
        comes_back = restore and all(agent.id != name for agent in registry.agents())
    show(said, shapes.shape, operation_views.settings, as_json)
    if comes_back and not as_json:
        note(f"{name} comes back with the next ingest of its source")


def remove(context: typer.Context, name: AgentId, as_json: AsJson = False) -> None:
    """Remove an agent, and keep it away whatever its source says."""
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        show(registry.remove(name), shapes.shape, operation_views.settings, as_json)


@sources.callback()
def list_sources(context: typer.Context, as_json: AsJson = False) -> None:
    """List the sources, or forget one."""
    if context.invoked_subcommand:
        return
    from waygraph.api.cli.render import catalog_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        show(registry.sources(), shapes.sources, catalog_views.sources, as_json)


@sources.command()
def forget(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source's name, as `waygraph sources` lists it.")],
    as_json: AsJson = False,
) -> None:
    """Remove a source, and the agents that only it claimed."""
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        show(registry.forget(held_source(registry, name)), shapes.shape, operation_views.view_forget, as_json)


def reindex(
    context: typer.Context,
    texts: Annotated[
        TextForm | None, typer.Option("--texts", help="The texts to embed from now on. Default: as they are.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Embed everything anew, with another embedder or other texts.

    waygraph --embedder onnx:BAAI/bge-small-en-v1.5 reindex
    """
    from waygraph.api.cli.render import operation_views
    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.registry.model import shapes

    told = invocation(context)
    with (
        told.open_for_reindex() as registry,
        progress_bar("Embedding", told.settings().progress_after_s) as progress,
    ):
        written = registry.reindex(texts=texts, embedder=told.wanted_embedder or None, progress=progress)
    show(written, shapes.shape, operation_views.view_write, as_json)


def _refuse_both(one: "Sequence[str] | None", other: bool, name: str, other_name: str) -> None:
    if one and other:
        raise typer.BadParameter(f"{name} and {other_name} exclude each other", param_hint=f"'{other_name}'")
