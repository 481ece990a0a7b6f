"""`mcp`: the registry and its tools, for a host of a language model."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from waygraph.api.cli.invocation import invocation


def mcp(
    context: typer.Context,
    *,
    surface: Annotated[
        Literal["default", "rfc"],
        typer.Option("--surface", help="What is listed. rfc: find_tools alone, as RFC 0001 has it."),
    ] = "default",
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Only agents of sources with this namespace.")
    ] = "",
) -> None:
    """Serve the registry and its tools over MCP on standard input and output.

    waygraph mcp

    A host starts this command; `waygraph connect` writes its entry.
    """
    from waygraph.api.mcp.stdio import Served, run_stdio
    from waygraph.ingest.surroundings import Surroundings

    told = invocation(context)
    settings = told.settings()
    told.own_place(settings)
    surroundings = Surroundings(environ=os.environ, home=str(Path.home()), cwd=str(Path.cwd()))
    with told.open() as registry:
        run_stdio(
            Served(
                registry=registry,
                settings=settings,
                surroundings=surroundings,
                surface=surface,
                namespace=namespace,
            )
        )
