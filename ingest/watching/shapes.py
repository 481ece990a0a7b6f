"""The events of a watch as JSON; docs/json-output.md describes them."""

from typing import TYPE_CHECKING

from waygraph.ingest.watching.events import (
    Failing,
    Listed,
    NotWritten,
    ServerSeen,
    SourceFailed,
    SourceRead,
    Starting,
    Stopped,
    Synced,
    Unreachable,
    WatchEvent,
)
from waygraph.registry.wire.shapes import report

if TYPE_CHECKING:
    from waygraph.ingest.watching.events import ServerEvent
    from waygraph.registry.wire.shapes import Shape


def shape_of_event(event: WatchEvent) -> "Shape":
    match event:
        case ServerSeen():
            return {"source": event.source, "server": event.key, **_server(event.event)}
        case SourceRead():
            counts = {"servers": event.servers, "agents": event.agents, "rejected": event.rejected}
            return {"source": event.source, "event": "source-read", **counts}
        case SourceFailed():
            return {"source": event.source, "event": "source-failed", "reason": event.reason}
        case Synced():
            return {"source": event.report.changes.source, "event": "synced", "report": report(event.report)}
        case NotWritten():
            return {"event": "not-written", "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}


def _server(event: "ServerEvent") -> "Shape":
    match event:
        case Starting():
            return {"event": "starting"}
        case Listed():
            listing = event.listing
            return {"event": "listed", "tools": len(listing.tools), "seconds": round(event.seconds, 3)}
        case Unreachable():
            told = {"since": event.since, "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}
            return {"event": "unreachable", **told}
        case Failing():
            return {"event": "failing", "reason": event.reason, "again_in_s": round(event.again_in_s, 3)}
        case Stopped():
            return {"event": "stopped"}
