"""What a person wants followed, to a watch over it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from waygraph.ingest.manifest.launch import ServerEntry
from waygraph.ingest.sources.kinds import REGISTRY_PREFIX
from waygraph.ingest.sources.read import STDIN, Parts, list_path
from waygraph.ingest.sources.resolve import OpenedSource, Opening, open_command, open_sources
from waygraph.ingest.watch.events import WatchEvent
from waygraph.ingest.watch.run import FILE_LOOK_S, Followed, Watching
from waygraph.ingest.watch.supervisor import Pace
from waygraph.registry.model.changes import Manifest, Policy
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

REGISTRY_POLL_S = 3600.0
"""What MCP registries ask of those who mirror them."""


def followed_sources(given: Sequence[str], command: Sequence[str], how: Opening) -> list[Followed]:
    """A file or folder that cannot be read is followed all the same: the watch tells of it, and reads it when it can.

    Raises SourceError for what else cannot be opened, and for standard input, which says only one thing.
    """
    if STDIN in given:
        raise SourceError("stdin", "cannot be followed: it is read once. `waygraph ingest -` does that")
    # A first look with the file's new times and the reading of its opening would miss an edit between them for good.
    how = replace(how, ask=_asked_by_the_watch, followed=True)
    followed = [each for text in given for each in _follow_sources(text, how)]
    if command:
        followed.append(Followed(source=open_command(command, how), poll_s=how.settings.watch_poll_s))
    return followed


def _follow_sources(text: str, how: Opening) -> list[Followed]:
    """Raises SourceError."""
    try:
        opened = open_sources(text, how)
    except SourceError:
        if how.kind or how.since or "://" in text or text.startswith(REGISTRY_PREFIX):  # it may be the options
            raise
        return [Followed(source=_unread(text, how), poll_s=FILE_LOOK_S)]
    return [Followed(source=source, poll_s=_poll_s(text, how.settings)) for source in opened]


def _unread(text: str, how: Opening) -> OpenedSource:
    """A file or folder that is there and cannot be read. Raises SourceError if nothing is there."""
    listing = partial(list_path, text, source=how.source, namespace=how.namespace)
    name = listing().source

    def parts() -> Parts:
        opened = open_sources(text, how)
        if [source.name for source in opened] != [name]:
            raise SourceError(name, "holds sources of its own: begin the watch anew to follow them")
        said = opened[0].parts()
        opened[0].vouch(said)
        return said

    return OpenedSource(name=name, parts=parts, vouch=lambda _: None, listing=listing)


def _poll_s(given: str, settings: Settings) -> float:
    return max(settings.watch_poll_s, REGISTRY_POLL_S) if given.startswith(REGISTRY_PREFIX) else settings.watch_poll_s


def watching(
    settings: Settings,
    tell: Callable[[WatchEvent], None],
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
