"""Sources that are followed beside the service, in the same process: a thread with an event loop of its own.

Their requests never wait for it: what it writes becomes the next generation, as any sync's does. With several workers
the process that started them follows; each of them sees what it wrote.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from shlex import quote
from threading import Lock

import anyio

from waygraph.api.telemetry.audit import Audit
from waygraph.api.telemetry.logs import FACTS
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.pipeline import Ingestion, ask_servers
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watch import events
from waygraph.ingest.watch.run import FollowedSource, Watch, followed_sources, watching
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model.changes import SyncReport
from waygraph.registry.model.errors import InvalidSetting, MassRemoval, SourceError
from waygraph.registry.model.process import step_back
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import place_of

_log = logging.getLogger("waygraph.watch")
AGAIN_S = 30.0
WATCH = Caller(id="watch", scopes=frozenset({"write"}), principal=None)
"""Who writes what is followed."""


def sources_to_follow(
    source_names: Sequence[str], location: str, settings: "Settings", environ: "Mapping[str, str]"
) -> list[FollowedSource]:
    """`location`: of the registry. Raises SourceError for what cannot be opened, so that a service says so before it
    begins.
    """
    place, around = place_of(location, settings), Surroundings.here(environ)
    return followed_sources(source_names, [], Opening(settings=settings, registry=place, surroundings=around))


class Follower:
    """Follows from `start` to `stop`, which takes at most as long as a watch takes to stop. Both may be called once."""

    def __init__(
        self, registry: "LocalRegistry", sources: Sequence[FollowedSource], settings: "Settings", audit: "Audit"
    ) -> None:
        self._registry, self._sources, self._settings, self._audit = registry, sources, settings, audit
        self._lock, self._running, self._stopped = Lock(), ExitStack(), False
        self._watch: Watch | None = None

    def start(self) -> None:
        """Returns at once."""
        if not self._sources:
            return
        from anyio.from_thread import start_blocking_portal

        with self._lock:
            if not self._stopped:
                portal = self._running.enter_context(start_blocking_portal())
                watching: Future[None] = portal.start_task_soon(self._follow)
                self._running.callback(watching.cancel)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._running.close()

    async def _follow(self) -> None:
        """Until it is cancelled. A watch that ends by an error, which is a fault of ours, is begun anew."""
        step_back()
        while True:
            try:
                self._watch = Watch(self._registry, self._sources, watching(self._settings, self._tell))
                await self._watch.run()
            except Exception:  # noqa: BLE001 - a service without its watch grows old unseen
                _log.exception("the watch has ended; it begins again in %g s", AGAIN_S)
            await anyio.sleep(AGAIN_S)

    def looks(self) -> "Mapping[str, tuple[float, str]]":
        """As `Watch.looks`, of each source that is followed; what was not looked at yet: 0 and empty."""
        looks = self._watch.looks if self._watch else {}
        return {source.name: looks.get(source.name, (0.0, "")) for source in self._sources}

    def sync(self, name: str) -> "list[SyncReport]":
        """Reads a source now that is followed, and asks its servers beside those that the watch keeps.

        Raises InvalidSetting with what to do for another one, SourceError, MassRemoval, and what a write raises.
        """
        its_source = next((each.source for each in self._sources if each.name == name), None)
        if its_source is None:
            raise InvalidSetting(
                f"this service does not follow {name!r}: run `waygraph ingest {quote(name)}` where it can be read, or "
                "start the service with --watch and that source"
            )
        opening = replace(its_source.how, ask=partial(ask_servers, self._settings))
        ingestion = Ingestion(opening=opening)
        try:
            return [each.report for each in ingestion.ingest(self._registry, [replace(its_source, how=opening)])]
        except (SourceError, MassRemoval) as error:
            ingestion.note_unreadable(self._registry, name, error)
            raise

    def _tell(self, event: events.WatchEvent) -> None:
        """In the log, and what was written or tried in the audit."""
        log_event(event)
        match event:
            case events.SourceSynced(report=report):
                self._audit.record(WATCH, "ingest", report.changes.source, "ok", revision=report.revision)
            case events.SourceFailed(source=source):
                self._audit.record(WATCH, "ingest", source, "failed", error=events.SourceFailed.__name__)
            case _:
                pass


@contextmanager
def follow_sources(
    open_registry: "Callable[[], LocalRegistry]",
    sources: Sequence[FollowedSource],
    settings: "Settings",
    audit: "Audit",
) -> Iterator[None]:
    """Sources are followed while the block is done, over a registry of their own."""
    if not sources:
        yield
        return
    with open_registry() as registry:
        follower = Follower(registry, sources, settings, audit)
        follower.start()
        try:
            yield
        finally:
            follower.stop()


def log_event(event: events.WatchEvent) -> None:
    """A line of the log; of a sync its numbers."""
    match event:
        case (
            events.SourceFailed()
            | events.NotWritten()
            | events.ServerSeen(event=events.Unreachable() | events.Failing())
        ):
            level = logging.WARNING
        case _:
            level = logging.INFO
    facts = events.facts_of_event(event)
    _log.log(level, str(facts.pop("event")), extra={FACTS: facts})
