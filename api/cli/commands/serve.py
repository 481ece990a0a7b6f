"""`mcp`: the registry and its tools, for a host of a language model."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import Invocation, invocation
from waygraph.api.mcp import Surface
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.process import without_collection

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.registry import Registry


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
    from waygraph.registry.storage.location import is_service

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
    from waygraph.registry.routing.find_tools.find import agents_of_namespace

    with told.open(settings) as registry, _loading(registry):
        if namespace and registry.exists:
            agents_of_namespace(registry, namespace)  # a mistyped name is told now, not by each of its requests
        with without_collection():
            from waygraph.api.mcp.stdio import Served, run_stdio
            from waygraph.ingest.manifest.environment import Surroundings

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


@contextmanager
def _loading(registry: "Registry") -> Iterator[None]:
    """Loads index and model in a thread while the SDK is imported, which takes as long."""
    thread = Thread(target=_load, args=(registry,), name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()  # it uses the registry, which is closed next


def _load(registry: "Registry") -> None:
    """Why something cannot be had is told to who asks for it."""
    with suppress(WaygraphError):
        if registry.exists:
            registry.route("are you ready")


# `serve`: the registry over REST.


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
    from waygraph.api.rest.bootstrap import Chosen, serve

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
