"""`mcp`: the registry and its tools, for a host of a language model."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.invocation import Invocation, invocation
from waygraph.api.cli.options import Surface
from waygraph.api.collecting import uncollected

if TYPE_CHECKING:
    from waygraph.registry.settings import Settings


def mcp(
    context: typer.Context,
    *,
    surface: Annotated[
        Surface,
        typer.Option("--surface", help="What is listed. rfc: find_tools alone, as RFC 0001 has it."),
    ] = "default",
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Only agents of sources with this namespace.")
    ] = "",
) -> None:
    """Serve the registry and its tools over MCP on standard input and output.

    waygraph mcp

    A host starts this command; `waygraph connect` writes its entry. Of a registry at a service it passes everything to
    the service's /mcp, so that many hosts share one service and the servers that it has started.
    """
    from waygraph.registry.storage.store import is_service

    told = invocation(context)
    settings = told.settings()
    if is_service(place := told.place(settings)):
        _bridge(str(place), settings, namespace, surface)
    else:
        _serve(told, settings, surface, namespace)


def _bridge(place: str, settings: "Settings", namespace: str, surface: str) -> None:
    """Raises BadParameter for a surface, which is the service's own."""
    from waygraph.api.mcp.bridge import serve_bridge

    if surface != "default":
        raise typer.BadParameter("what is listed is the service's to say", param_hint="'--surface'")
    serve_bridge(place, settings, namespace=namespace)


def _serve(told: Invocation, settings: "Settings", surface: "Surface", namespace: str) -> None:
    """Raises UnknownName for a namespace that the registry does not have; one that is not there yet may get it."""
    from waygraph.api.mcp.loading import loading
    from waygraph.registry.discovery.namespaces import agents_of_namespace

    with told.open(settings) as registry, loading(registry):
        if namespace and registry.exists:
            agents_of_namespace(registry, namespace)  # a mistyped name is told now, not by each of its requests
        with uncollected():
            from waygraph.api.mcp.stdio import Served, run_stdio
            from waygraph.ingest.surroundings import Surroundings

        surroundings = Surroundings.here(os.environ)
        run_stdio(
            Served(
                registry=registry,
                settings=settings,
                surroundings=surroundings,
                surface=surface,
                namespace=namespace,
            )
        )
