"""`watch`: the registry kept in step with sources and running servers."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.commands.source_options import (
    Connect,
    Env,
    Header,
    Namespace,
    OAuth,
    Since,
    SourceKind,
    Start,
    opening,
)
from waygraph.api.cli.options import Policy, after_dashes, invocation

if TYPE_CHECKING:
    from waygraph.api.cli.render.watch_output import WatchOutput


def watch(
    context: typer.Context,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Configurations, other files, folders, addresses. Default: those that the registry knows.",
        ),
    ] = None,
    *,
    policy: Annotated[
        Policy | None,
        typer.Option("--policy", help="What becomes of changed tools. Default: as each source has it, else accept."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            min=0.01,
            help="From one look to the next at what does not tell of changes. Default: WAYGRAPH_WATCH_POLL_S.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when every server has answered or failed, and all is written.")
    ] = False,
    namespace: Namespace = "",
    kind: SourceKind = "",
    header: Header = None,
    env: Env = None,
    oauth: OAuth = False,
    since: Since = "",
    connect: Connect = None,
    start: Start = False,
    allow_mass_removal: Annotated[
        bool, typer.Option("--allow-mass-removal", help="Let a source remove more than half of its agents.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each event; docs/json-output.md describes them.")
    ] = False,
) -> None:
    """Keep the registry in step with sources and running servers, until stopped.

    waygraph watch mcp.json --policy hold

    waygraph watch -- uvx mcp-server-time
    """
    import os
    from dataclasses import replace

    from waygraph.api.cli.commands.watch_process import WatchOptions, known_sources, run_until_stopped
    from waygraph.ingest.sources.opening import refuse_unused
    from waygraph.registry.storage.location import place_of

    options = invocation(context)
    settings = options.settings()
    place = options.own_place(settings)
    how = opening(
        settings,
        os.environ,
        registry=place_of(place, settings),
        is_named=bool(given),  # what the registry knows, others may have put there
        namespace=namespace,
        kind=kind,
        headers=header,
        env=env,
        oauth=oauth,
        since=since,
        connect=connect,
        start=start,
    )
    if interval is not None:
        settings = replace(settings, watch_poll_s=interval)
    with options.open_own() as registry, _output(str(place), as_json=as_json) as output:
        command = after_dashes(context)
        sources = list(given or ()) or ([] if command else known_sources(registry))
        refuse_unused(sources, command, how)
        watch_options = WatchOptions(
            registry=registry,
            settings=settings,
            sources=sources,
            command=command,
            how=how,
            policy=policy,
            allow_mass_removal=allow_mass_removal,
            tell=output.tell,
        )
        status = run_until_stopped(watch_options, once=once)
    raise typer.Exit(status)


@contextmanager
def _output(place: str, *, as_json: bool) -> "Iterator[WatchOutput]":
    """`place`: of the registry."""
    from waygraph.api.cli.render.watch_output import JsonLines, Lines

    if as_json or not sys.stdout.isatty():
        yield JsonLines() if as_json else Lines()
        return
    from waygraph.api.cli.render.watch_table import live_table

    with live_table(place) as table:
        yield table
