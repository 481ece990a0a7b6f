"""What becomes of servers and sources that are followed, as frozen values."""

from dataclasses import dataclass, field

from waygraph.ingest.upstream.listing import ServerListing
from waygraph.registry.changes import SyncReport
from waygraph.registry.statuses import ONLINE, failing, unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """It is started or reached for the first time. `server`, here and below: the fleet's name for it."""

    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """It is online, and offers this now."""

    server: str
    listing: ServerListing = field(repr=False)
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """It cannot be started or reached, or went away; tried again in `again_in_s`. `since`: ISO 8601 in UTC."""

    server: str
    since: str
    reason: str
    again_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """It answers, with what is no answer; asked again in `again_in_s`."""

    server: str
    reason: str
    again_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """It is followed no more."""

    server: str


ServerEvent = Starting | Listed | Unreachable | Failing | Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeen:
    """What became of the server that a source names by this key."""

    source: str
    key: str
    event: ServerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """A source was read, for the first time or since it changed."""

    source: str
    servers: int
    agents: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed:
    """A source cannot be read now, or the registry will not have what it says; what is held of it stays."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The registry was brought to what a source says."""

    report: SyncReport


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWritten:
    """The registry cannot be written now. Nothing is lost: it is tried again in `again_in_s`."""

    reason: str
    again_in_s: float


WatchEvent = ServerSeen | SourceRead | SourceFailed | Synced | NotWritten


def status_of(event: ServerEvent) -> str:
    """The status of its agent; empty if the event says nothing of it."""
    match event:
        case Listed():
            return ONLINE
        case Unreachable():
            return unreachable(event.since, event.reason)
        case Failing():
            return failing(event.reason)
        case Starting() | Stopped():
            return ""
