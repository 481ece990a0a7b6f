"""A watch as a process: which sources, and how it stops."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from waygraph.api.cli.render.output import note
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watch.events import (
    Failing,
    ServerListed,
    ServerSeen,
    SourceFailed,
    SourceRead,
    Unreachable,
    WatchEvent,
)
from waygraph.ingest.watch.run import Watch, followed_sources, watching
from waygraph.registry.model.changes import Policy
from waygraph.registry.model.errors import SourceError, WaygraphError
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

INTERRUPTED, FAILED = 130, 1
"""128 + SIGINT, as a shell reports a program that a person interrupted."""


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Which sources to follow, into which registry, and how."""

    registry: LocalRegistry
    settings: Settings
    sources: Sequence[str]
    command: Sequence[str]
    how: Opening
    policy: Policy | None
    allow_mass_removal: bool
    tell: Callable[[WatchEvent], None]


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


def run_until_stopped(options: WatchOptions, *, once: bool) -> int:
    """The exit status: 130 where SIGINT ended it, 1 where one look (`once`) found nothing but failures, else 0.

    Raises SourceError; with `once` what the registry refuses; SystemExit once standard output takes nothing more.
    """
    how = replace(options.how, settings=options.settings)
    relay = _Relay(options.tell)
    balance = _Balance(relay.tell)
    sources = followed_sources(options.sources, options.command, how)
    watch_settings = watching(
        options.settings,
        balance.tell,
        policy=options.policy,
        allow_mass_removal=options.allow_mass_removal,
        once=once,
    )
    watch = Watch(options.registry, sources, watch_settings)
    stop_signals, refusals = list[int](), list[WaygraphError]()

    async def run() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                group.start_soon(_stop_by, signals, group.cancel_scope, stop_signals)
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
        return INTERRUPTED
    return FAILED if once and not stop_signals and balance.only_failures else 0


class _Relay:
    """Hands events on. Once that would end the program, which is no way out of a task or a thread, it stops the watch,
    and the program ends when that has ended.
    """

    def __init__(self, tell: Callable[[WatchEvent], None]) -> None:
        self._tell = tell
        self.stop: Callable[[], object] = lambda: None
        self.ending: SystemExit | None = None

    def tell(self, event: WatchEvent) -> None:
        try:
            self._tell(event)
        except SystemExit as ending:
            self.ending = ending
            self.stop()


class _Balance:
    """Hands events on, and notes whether anything was learnt of any source."""

    def __init__(self, tell: Callable[[WatchEvent], None]) -> None:
        self._tell, self._learnt, self._failed = tell, False, False

    @property
    def only_failures(self) -> bool:
        return self._failed and not self._learnt

    def tell(self, event: WatchEvent) -> None:
        match event:
            case ServerSeen(event=ServerListed()):
                self._learnt = True
            case SourceRead(servers=0, agents=agents) if agents:
                self._learnt = True
            case SourceRead(servers=0, rejected=count) if count:
                self._failed = True
            case SourceFailed() | ServerSeen(event=Unreachable() | Failing()):
                self._failed = True
        self._tell(event)


async def _stop_by(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope, stop_signals: list[int]) -> None:
    async for number in signals:
        stop_signals.append(number)
        scope.cancel()
