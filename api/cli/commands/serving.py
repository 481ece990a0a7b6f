"""`serve`: the registry over REST."""

from typing import Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import Surface


def serve(
    context: typer.Context,
    *,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any that is free.")] = 8080,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="How many processes answer.")] = 1,
    no_auth: Annotated[
        bool,
        typer.Option("--no-auth", help="Ask nobody who they are, on any address."),
    ] = False,
    no_mcp: Annotated[
        bool,
        typer.Option("--no-mcp", help="Offer REST alone, without the gateway at /mcp and /NAMESPACE/mcp."),
    ] = False,
    surface: Annotated[
        Surface,
        typer.Option("--surface", help="What the gateway lists. rfc: find_tools alone, as RFC 0001 has it."),
    ] = "default",
    watch: Annotated[
        list[str] | None,
        typer.Option("--watch", metavar="SOURCE", help="Follow this source, as `waygraph watch` does. Repeat."),
    ] = None,
) -> None:
    """Offer the registry over REST, and over MCP at /mcp, until it is told to stop.

    waygraph serve --port 8080
    """
    from waygraph.api.rest.serving import Chosen, serve

    told = invocation(context)
    place = str(told.own_place(told.settings()))
    chosen = Chosen(
        location=place,
        embedder=told.embedder,
        host=host,
        port=port,
        workers=workers,
        open_to_all=no_auth,
        watch=tuple(watch or ()),
        mcp=not no_mcp,
        surface=surface,
    )
    serve(chosen)
