"""`watch`: the registry kept in step with sources and running servers."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer
from typer import Argument, Option

from waygraph.api.cli.options import AllowMassRemoval, NameOptions, Policy, ServerOptions, Texts, invocation, opening
from waygraph.api.cli.render.output import INTERRUPT, note, one_line, print_line
from waygraph.api.cli.render.views import flag_remarks
from waygraph.ingest.sources.opening import refuse_unused
from waygraph.ingest.watch import events
from waygraph.ingest.watch.run import Watch, followed_sources, watching
from waygraph.registry.model.errors import SourceError, WaygraphError
from waygraph.registry.model.foreign_text import escape_unsafe
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import place_of

_SOURCES_HELP = "Configurations, other files, folders, addresses. Default: those that the registry knows."
_INTERVAL_HELP = "From one look to the next at what does not tell of changes. Default: WAYGRAPH_WATCH_POLL_S."


def watch(
    context: typer.Context,
    given: Annotated[Texts, Argument(metavar="SOURCE…", help=_SOURCES_HELP)] = None,
    *,
    policy: Annotated[
        Policy | None, Option(help="What becomes of changed tools. Default: as each source has it, else accept.")
    ] = None,
    interval: Annotated[float | None, Option(metavar="SECONDS", min=0.01, help=_INTERVAL_HELP)] = None,
    once: Annotated[bool, Option(help="End when every server has answered or failed, and all is written.")] = False,
    names: NameOptions,
    servers: ServerOptions,
    allow_mass_removal: AllowMassRemoval = False,
    as_json: Annotated[
        bool, Option("--json", help="Print a line of JSON for each event; docs/json-output.schema.json describes them.")
    ] = False,
) -> None:
    """Keep the registry in step with sources and running servers, until stopped.

    waygraph watch mcp.json --policy hold

    waygraph watch -- uvx mcp-server-time
    """
    options = invocation(context)
    settings, place = options.settings, options.own_place()
    if interval is not None:
        settings = replace(settings, watch_poll_s=interval)
    is_named = bool(given)  # what the registry knows, others may have put there
    how = opening(
        settings, os.environ, registry=place_of(place, settings), is_named=is_named, names=names, servers=servers
    )
    with options.open_own() as registry:
        command = options.server_command
        sources = list(given or ()) or ([] if command else known_sources(registry))
        refuse_unused(sources, command, how)
        relay = _Relay(_line_output(_json_line if as_json else _describe_lines))
        watch_settings = watching(settings, relay.tell, policy=policy, allow_mass_removal=allow_mass_removal, once=once)
        watched_sources = followed_sources(sources, command, how)
        status = _run_until_stopped(Watch(registry, watched_sources, watch_settings), relay, once=once)
    raise typer.Exit(status)


def known_sources(registry: LocalRegistry) -> list[str]:
    """The files and folders among the registry's sources that are there; a note names the others, which are not
    followed. Raises SourceError if there are none, RegistryNotFound.
    """
    names = [source.name for source in registry.sources()]
    paths = [name for name in names if name.startswith("/") and Path(name).exists()]
    if others := [name for name in names if name not in paths]:
        note(f"not followed, since no file or folder of this machine: {', '.join(others)}")
    if not paths:
        raise SourceError(
            "watch", "name a source: this registry knows no file or folder that could be followed. Example: mcp.json"
        )
    return paths


def _run_until_stopped(watch: Watch, relay: "_Relay", *, once: bool) -> int:
    """The exit status: 130 where SIGINT ended it, 1 where one look (`once`) found nothing but failures, else 0.

    Raises SourceError; with `once` what the registry refuses; SystemExit once standard output takes nothing more.
    """
    stop_signals, refusals = list[int](), list[WaygraphError]()

    async def run() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

            async def stop_by_signal() -> None:
                async for number in signals:
                    stop_signals.append(number)
                    group.cancel_scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop_by_signal)
                relay.stop = partial(asyncio.get_running_loop().call_soon_threadsafe, group.cancel_scope.cancel)
                try:
                    await watch.run(once=once)
                except WaygraphError as error:  # a group of tasks would wrap it
                    refusals.append(error)
                group.cancel_scope.cancel()
        if stop_signals:  # a second Ctrl-C while the process ends is the same wish
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    anyio.run(run)
    for ending in (relay.ending, *refusals):
        if ending:
            raise ending
    if signal.SIGINT in stop_signals:
        return INTERRUPT
    return int(once and not stop_signals and relay.has_failed and not relay.has_learnt)


class _Relay:
    """Hands events on, and notes whether anything was learnt of any source.

    An event whose output ends the program stops the watch first: SystemExit is no way out of a task or a thread.
    """

    def __init__(self, tell: Callable[[events.WatchEvent], None]) -> None:
        self._tell, self.has_learnt, self.has_failed = tell, False, False
        self.stop: Callable[[], object] = lambda: None
        self.ending: SystemExit | None = None

    def tell(self, event: events.WatchEvent) -> None:
        match event:
            case events.ServerSeen(event=events.ServerListed()):
                self.has_learnt = True
            case events.SourceRead(servers=0, agents=agents) if agents:
                self.has_learnt = True
            case events.SourceRead(servers=0, rejected=count) if count:
                self.has_failed = True
            case events.SourceFailed() | events.ServerSeen(event=events.Unreachable() | events.Failing()):
                self.has_failed = True
        try:
            self._tell(event)
        except SystemExit as ending:
            self.ending = ending
            self.stop()


def _line_output(describe: Callable[[events.WatchEvent], list[str]]) -> Callable[[events.WatchEvent], None]:
    """Prints the lines of an event; threads may call it."""
    lock = threading.Lock()

    def tell(event: events.WatchEvent) -> None:
        with lock:
            for line in describe(event):
                print_line(line)

    return tell


def _json_line(event: events.WatchEvent) -> list[str]:
    """A JSON object."""
    return [escape_unsafe(json.dumps({"at": _now(), **events.shape_of_event(event)}, ensure_ascii=False))]


def _describe_lines(event: events.WatchEvent) -> list[str]:
    """Of whom, what, and its figures but for those that are 0; then what of it a person should look at."""
    facts = events.facts_of_event(event)
    source, what = facts.pop("source", "registry"), facts.pop("event")
    who = facts.pop("server", source)
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if value)
    texts = (f"{what}: {figures}" if figures else what, *_remarks(event))
    return [one_line(f"{_now()} {who}: {text}") for text in texts]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _remarks(event: events.WatchEvent) -> tuple[str, ...]:
    """What of a sync a person should look at: what was not taken, or not whole, and what looks suspicious."""
    if not isinstance(event, events.SourceSynced):
        return ()
    changes = event.report.changes
    return (
        *(f"rejected: {each.where}: {each.reason}" for each in changes.rejected),
        *(f"cut: {each.where}: {each.reason}" for each in changes.cut),
        *(f"{kind}: {name}: {text}" for kind, name, text in flag_remarks(changes)),
    )
