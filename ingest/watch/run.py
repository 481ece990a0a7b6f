"""`Watch`: sources and their servers followed, the registry kept in step."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random

import anyio
from anyio import to_thread

from waygraph.ingest.manifest.records import HttpLaunch, Launch, Manifest, ServerEntry, StdioLaunch
from waygraph.ingest.sources.kinds import REGISTRY_PREFIX
from waygraph.ingest.sources.opening import Documents, OpenedSource, Opening, open_command, open_sources, vouch
from waygraph.ingest.sources.parse import beside, is_skill
from waygraph.ingest.sources.read import STDIN, Parts
from waygraph.ingest.sync.apply import Member
from waygraph.ingest.upstream.box import with_grants
from waygraph.ingest.upstream.connection import (
    SERVERS_AT_ONCE,
    START_S,
    Clock,
    Connect,
    Connection,
    Starts,
    SystemClock,
)
from waygraph.ingest.watch import events
from waygraph.ingest.watch.queue import Inbox, Offer, WriteAbandoned, Writer
from waygraph.ingest.watch.supervisor import Backoff, Fleet, Pace, Supervision
from waygraph.registry.model.changes import Policy, status_of_fault
from waygraph.registry.model.errors import SourceError, WaygraphError
from waygraph.registry.model.nouns import ONLINE
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

FILE_LOOK_S = 1.0
"""From one look at the times of files to the next, which costs little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSource:
    """A source that is read again when it changed. Its methods may take their time: they are called in a thread."""

    source: OpenedSource
    poll_s: float
    """From one reading to the next of what does not tell by itself that it changed, such as an address."""

    @property
    def name(self) -> str:
        return self.source.name

    def stamp(self) -> object:
        """Another value when it may say something else; None: it has to be read to know. Raises SourceError."""
        if not isinstance(self.source.place, Documents):
            return None
        places = [where for where, _ in self.source.place.list(self.source.how).files]
        if any("://" in where for where in places):
            return None
        try:
            return tuple(stamp for where in places for stamp in _stamps(Path(where)))
        except OSError as exc:
            raise SourceError(self.name, f"cannot be read: {exc.strerror}") from exc

    def look_s(self, stamp: object) -> float:
        """How long till the next look at a source of this stamp."""
        return self.poll_s if stamp is None else FILE_LOOK_S

    def say(self) -> Parts:
        """What it says by itself; no server is asked. Raises SourceError if nothing at all can be read."""
        parts = self.source.parts()
        vouch(self.source, parts)
        return parts


def _stamps(document: Path) -> Iterator[object]:
    """Of a file, and of all that is read with it. Raises OSError if the file itself is not there."""
    yield _stamp(document)
    for script in beside(document) if is_skill(document) else ():
        try:
            yield _stamp(script)
        except OSError:  # such as a link to nowhere, which the skill is told without
            yield str(script)


def _stamp(file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return str(file), status.st_mtime_ns, status.st_size, status.st_ino


_log = logging.getLogger("waygraph.watch")

LOOKING_SHARE = 0.05
"""Of the time: looking at the files of a large folder takes no more."""
_WRITE_AGAIN = Pace(retry_first_s=0.5, retry_most_s=30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How a watch is run. `tell` is called in the event loop or in the thread that writes, and must not wait."""

    connect: Connect
    settings: Settings
    tell: Callable[[events.WatchEvent], None]
    policy: Policy | None = None
    allow_mass_removal: bool = False
    pace: Pace = field(default_factory=Pace)
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=Random)


class Watch:
    """Follows sources into one registry. What the registry knows it answers all the while."""

    def __init__(self, registry: LocalRegistry, sources: Sequence[FollowedSource], watching: Watching) -> None:
        self._sources, self._watching = sources, watching
        self._inbox = Inbox()
        self._parts: dict[str, Parts] = {}
        self._members: dict[str, list[tuple[str, ServerEntry]]] = {}
        """By the fleet's name: the sources that name this launch, and what they say of it."""
        self._latest: dict[str, events.ServerEvent] = {}
        self._unread = {source.name for source in sources}
        self.looks: dict[str, tuple[float, str]] = {}
        """By source that was looked at: from one look to the next in seconds, and when the next one is, in ISO 8601."""
        self._writing = False
        self._refusal: Exception | None = None
        """What no later try could write either."""
        self._writer = Writer(
            registry=registry,
            tell=watching.tell,
            policy=watching.policy,
            allow_mass_removal=watching.allow_mass_removal,
        )

    async def run(self, *, once: bool = False) -> None:
        """Until it is cancelled; with `once` until every server has answered or failed, and all is written.

        With `once` raises what the registry refuses for good, such as EmbedderMismatch.
        """
        async with anyio.create_task_group() as group:
            fleet = Fleet(group, self._supervision())
            self._inbox.is_patient = not once
            group.start_soon(self._write, once)
            group.start_soon(self._stop_writing)
            for source in self._sources:
                group.start_soon(self._follow, source, fleet)
            if once:
                while not self._refusal and (
                    self._unread or fleet.names - self._latest.keys() or self._writing or not self._inbox.is_empty
                ):
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        if self._refusal:
            raise self._refusal

    def _supervision(self) -> Supervision:
        watching = self._watching
        stdio = Starts(watching.settings.upstream_starts_at_once, START_S, watching.clock)
        http = Starts(SERVERS_AT_ONCE, START_S, watching.clock)
        return Supervision(
            connect=self._connect,
            tell=self._note_event,
            starts=lambda launch: stdio if isinstance(launch, StdioLaunch) else http,
            pace=watching.pace,
            clock=watching.clock,
            random=watching.random,
        )

    def _connect(self, launch: Launch) -> AbstractAsyncContextManager[Connection]:
        """With what operators have granted by this start."""
        source, server = self._members[_name(launch)][0]
        return self._watching.connect(with_grants(launch, self._watching.settings, source, server.key))

    # -- sources -----------------------------------------------------------------------------------

    async def _follow(self, source: FollowedSource, fleet: Fleet) -> None:
        """Reads it now, whenever it may say something else, and where the registry no longer holds what it said."""
        stamp: object = None
        must_write = False
        failure = ""
        looks_s = deque([0.0], maxlen=2)  # the last two: a machine that was busy for a moment makes no folder large
        while True:
            try:
                new_stamp = await self._look(source, looks_s)
                if not (must_write or self._writing):
                    must_write = await to_thread.run_sync(
                        self._writer.must_rewrite, source.name, abandon_on_cancel=True
                    )
                if must_write or new_stamp is None or new_stamp != stamp:
                    parts = await to_thread.run_sync(source.say, abandon_on_cancel=True)
                    if must_write or parts != self._parts.get(source.name):
                        self._take_source(source.name, parts, fleet)
                if failure:
                    self._inbox.status((source.name, ""), ONLINE)
                stamp, failure, must_write = new_stamp, "", False
            except Exception as error:  # noqa: BLE001 - told, see `_error_text`
                if (reason := _error_text(error, f"looking at {source.name}")) != failure:
                    failure = reason
                    self._watching.tell(events.SourceFailed(source=source.name, reason=failure))
                    status = status_of_fault(error.reason if isinstance(error, SourceError) else reason)
                    self._inbox.status((source.name, ""), status)
            self._unread.discard(source.name)
            pause_s, clock = max(source.look_s(stamp), min(looks_s) / LOOKING_SHARE), self._watching.clock
            next_at = datetime.fromisoformat(clock.utc()) + timedelta(seconds=pause_s)
            self.looks[source.name] = (pause_s, next_at.isoformat(timespec="seconds"))
            await clock.sleep(pause_s)

    async def _look(self, source: FollowedSource, looks_s: deque[float]) -> object:
        """Its stamp; how long the look took, also one that failed, is put behind `looks_s`."""
        began_s = self._watching.clock.now_s()
        try:
            return await to_thread.run_sync(source.stamp, abandon_on_cancel=True)
        finally:
            looks_s.append(self._watching.clock.now_s() - began_s)

    def _take_source(self, source: str, parts: Parts, fleet: Fleet) -> None:
        """What a source says now is written, and its servers are followed from now on, and only they."""
        before = set(self._keys(source))
        self._parts[source] = parts
        self._inbox.say(source, parts)
        launches: dict[str, Launch] = {}
        self._members = {}
        for each, its in self._parts.items():
            for server in its.servers:
                name = _name(server.launch)
                launches[name] = server.launch
                self._members.setdefault(name, []).append((each, server))
        self._latest = {name: event for name, event in self._latest.items() if name in launches}
        for name, key in before - set(self._keys(source)):
            self._watching.tell(events.ServerSeen(source=source, key=key, event=events.ServerStopped(server=name)))
        fleet.follow(launches)
        for server in parts.servers:  # one that is followed already may say nothing new for long
            if latest := self._latest.get(_name(server.launch)):
                if (latest.server, server.key) not in before:
                    self._watching.tell(events.ServerSeen(source=source, key=server.key, event=latest))
                self._take((source, server.key), server, latest)

    def _keys(self, source: str) -> Iterator[tuple[str, str]]:
        """The fleet's name of each server of a source, and its key there."""
        parts = self._parts.get(source)
        return ((_name(server.launch), server.key) for server in (parts.servers if parts else ()))

    # -- servers -----------------------------------------------------------------------------------

    def _note_event(self, event: events.ServerEvent) -> None:
        before = self._latest.get(event.server)
        is_same = (
            isinstance(before, events.ServerListed)
            and isinstance(event, events.ServerListed)
            and before.listing == event.listing
        )
        if not isinstance(event, (events.Starting, events.ServerStopped)):
            self._latest[event.server] = event
        for source, server in self._members.get(event.server, ()):
            if not is_same:
                self._watching.tell(events.ServerSeen(source=source, key=server.key, event=event))
            self._take((source, server.key), server, event)

    def _take(self, member: Member, server: ServerEntry, event: events.ServerEvent) -> None:
        if isinstance(event, events.ServerListed):
            self._inbox.offer(member, Offer(server, event.listing))
        if status := events.status_of(event):
            self._inbox.status(member, status)

    # -- the registry ------------------------------------------------------------------------------

    async def _write(self, once: bool) -> None:
        """One batch after the other; what comes meanwhile is the next one."""
        again = Backoff(_WRITE_AGAIN, self._watching.random)
        while True:
            batch = await self._inbox.take(self._watching.clock)
            self._writing = True
            try:
                sources = await to_thread.run_sync(partial(self._writer.write, batch))
            except WriteAbandoned:
                await anyio.sleep_forever()
            except Exception as error:  # noqa: BLE001 - told, see `_error_text`
                self._inbox.put_back(batch)
                if once and not (isinstance(error, WaygraphError) and error.retryable):
                    self._refusal = error
                    return
                pause_s = again.pause_s()
                self._watching.tell(events.NotWritten(reason=_error_text(error, "writing"), again_in_s=pause_s))
                await self._watching.clock.sleep(pause_s)
            else:
                again.begin_anew()
                self._inbox.note_written(batch, sources, self._watching.clock.now_s())
            self._writing = False

    async def _stop_writing(self) -> None:
        """A write that embeds for minutes ends when the watch does."""
        try:
            await anyio.sleep_forever()
        finally:
            self._writer.stopping = True


def _error_text(error: Exception, doing: str) -> str:
    """No error ends a watch: one that nobody foresaw, such as that no thread can be had, may be gone the next time."""
    if isinstance(error, WaygraphError):
        return str(error)
    _log.error("%s failed", doing, exc_info=error)
    return f"{type(error).__name__}: {error}"


def _name(launch: Launch) -> str:
    """The same for the same launch, whoever names it; nothing can be read from it."""
    match launch:
        case StdioLaunch():
            parts: object = (launch.command, launch.args, sorted(launch.env.items()), launch.cwd, launch.isolate)
        case HttpLaunch():
            parts = (launch.url, sorted(launch.headers.items()), launch.form, launch.oauth, launch.public)
    return sha256(ascii(parts).encode()).hexdigest()


REGISTRY_POLL_S = 3600.0
"""What MCP registries ask of those who mirror them."""


def followed_sources(texts: Sequence[str], command: Sequence[str], how: Opening) -> list[FollowedSource]:
    """A file or folder that cannot be read is followed all the same: the watch tells of it, and reads it when it can.

    Raises SourceError for what else cannot be opened, and for standard input, which says only one thing.
    """
    if STDIN in texts:
        raise SourceError("stdin", "cannot be followed: it is read once. `waygraph ingest -` does that")
    # A first look with the file's new times and the reading of its opening would miss an edit between them for good.
    how = replace(how, ask=_asked_by_the_watch, is_followed=True)
    sources = [each for text in texts for each in _follow_sources(text, how)]
    if command:
        sources.append(FollowedSource(source=open_command(command, how), poll_s=how.settings.watch_poll_s))
    return sources


def _follow_sources(text: str, how: Opening) -> list[FollowedSource]:
    """Raises SourceError."""
    try:
        sources = open_sources(text, how)
    except SourceError:
        if how.kind or how.since or "://" in text or text.startswith(REGISTRY_PREFIX):  # it may be the options
            raise
        return [FollowedSource(source=_open_unread(text, how), poll_s=FILE_LOOK_S)]
    for source in sources:
        if how.start and source.content:  # what a person said yes to; a later reading finds it by this note
            vouch(source, source.content)
    poll_s = how.settings.watch_poll_s
    poll_s = max(poll_s, REGISTRY_POLL_S) if text.startswith(REGISTRY_PREFIX) else poll_s
    return [FollowedSource(source=source, poll_s=poll_s) for source in sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadDocuments(Documents):
    """A file or folder that is there, and could not be read when its watch began."""

    def __call__(self, name: str, how: Opening) -> Parts:
        parts = self.read_all(how)
        if [each.manifest.source for each in parts] != [name]:
            raise SourceError(name, "holds sources of its own: begin the watch anew to follow them")
        return parts[0]


def _open_unread(text: str, how: Opening) -> OpenedSource:
    """Raises SourceError if nothing is there."""
    documents = UnreadDocuments(text=text, are_named=how.is_named)
    listing = documents.list(how)
    place, path = replace(documents, are_named=listing.is_named), str(Path(text).expanduser().absolute())
    return OpenedSource(name=listing.source, opened_name=listing.source, how=how, place=place, path=path)


def watching(
    settings: Settings,
    tell: Callable[[events.WatchEvent], None],
    *,
    policy: Policy | None = None,
    allow_mass_removal: bool = False,
    once: bool = False,
) -> Watching:
    """A watch of real servers, at the pace of the settings. `once`: servers are not asked to tell of changes."""
    from waygraph.ingest.upstream.open import connect  # the SDK takes half a second to import

    return Watching(
        connect=partial(connect, settings=settings, follow=not once),
        settings=settings,
        tell=tell,
        policy=policy,
        allow_mass_removal=allow_mass_removal,
        pace=Pace(poll_s=settings.watch_poll_s),
    )


def _asked_by_the_watch(source: str, servers: Sequence[ServerEntry]) -> Manifest:
    raise AssertionError(f"a watch asks the {len(servers)} servers of {source} itself")
