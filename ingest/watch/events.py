"""What becomes of servers and sources that are followed, frozen and as JSON (docs/json-output.schema.json)."""

from dataclasses import dataclass, field

from waygraph.ingest.sync.apply import counts
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.registry.model.changes import SyncReport
from waygraph.registry.model.nouns import ONLINE, failing, unreachable
from waygraph.registry.model.shapes import Shape, report


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """It is started or reached for the first time. `server`, here and below: the fleet's name for it."""

    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerListed:
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
class ServerStopped:
    """It is followed no more."""

    server: str


ServerEvent = Starting | ServerListed | Unreachable | Failing | ServerStopped


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
class SourceSynced:
    """The registry was brought to what a source says."""

    report: SyncReport


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWritten:
    """The registry cannot be written now. Nothing is lost: it is tried again in `again_in_s`."""

    reason: str
    again_in_s: float


WatchEvent = ServerSeen | SourceRead | SourceFailed | SourceSynced | NotWritten


def status_of(event: ServerEvent) -> str:
    """The status of its agent; empty if the event says nothing of it."""
    match event:
        case ServerListed():
            return ONLINE
        case Unreachable():
            return unreachable(event.since, event.reason)
        case Failing():
            return failing(event.reason)
        case Starting() | ServerStopped():
            return ""


def shape_of_event(event: WatchEvent) -> Shape:
    match event:
        case ServerSeen():
            return {"source": event.source, "server": event.key, **_server(event.event)}
        case SourceRead():
            counts = {"servers": event.servers, "agents": event.agents, "rejected": event.rejected}
            return {"source": event.source, "event": "source-read", **counts}
        case SourceFailed():
            return {"source": event.source, "event": "source-failed", "reason": event.reason}
        case SourceSynced():
            return {"source": event.report.changes.source, "event": "synced", "report": report(event.report)}
        case NotWritten():
            return {"event": "not-written", "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}


def facts_of_event(event: WatchEvent) -> Shape:
    """The same in one line: of a sync its numbers."""
    if not isinstance(event, SourceSynced):
        return shape_of_event(event)
    changes = event.report.changes
    return {"source": changes.source, "event": "synced", "revision": event.report.revision, **counts(changes)}


def _server(event: ServerEvent) -> Shape:
    match event:
        case Starting():
            return {"event": "starting"}
        case ServerListed():
            return {"event": "listed", "tools": len(event.listing.tools), "seconds": round(event.seconds, 3)}
        case Unreachable():
            fields = {"since": event.since, "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}
            return {"event": "unreachable", **fields}
        case Failing():
            return {"event": "failing", "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}
        case ServerStopped():
            return {"event": "stopped"}
