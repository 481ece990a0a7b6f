"""What a watch prints: a live table on a terminal, a line for each event in a pipe, or JSON lines."""

import json
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from waygraph.api.cli.render.blocks import one_line
from waygraph.api.cli.render.output import print_line
from waygraph.api.telemetry.escaping import escape_unsafe
from waygraph.ingest.watch.events import (
    Failing,
    NotWritten,
    ServerListed,
    ServerSeen,
    ServerStopped,
    SourceFailed,
    SourceRead,
    SourceSynced,
    Starting,
    Unreachable,
    WatchEvent,
    shape_of_event,
)

if TYPE_CHECKING:
    from waygraph.ingest.watch.events import ServerEvent
    from waygraph.registry.model.changes import SyncReport


class WatchOutput(Protocol):
    def tell(self, event: WatchEvent) -> None:
        """Called from the event loop and from the thread that writes."""
        ...


class JsonLines:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, event: WatchEvent) -> None:
        line = escape_unsafe(json.dumps({"at": now(), **shape_of_event(event)}, ensure_ascii=False))
        with self._lock:
            print_line(line)


class Lines:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, event: WatchEvent) -> None:
        who, what = describe_event(event)
        with self._lock:
            for text in (what, *remarks(event)):
                print_line(one_line(f"{now()} {who}: {text}"))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def describe_event(event: WatchEvent) -> tuple[str, str]:
    """Of whom, and what, in words."""
    match event:
        case ServerSeen():
            return event.key, describe_server(event.event)
        case SourceRead():
            suffix = f", {event.rejected} rejected" if event.rejected else ""
            return (
                event.source,
                f"read: {_count_text(event.servers, 'server')}, {_count_text(event.agents, 'agent')}{suffix}",
            )
        case SourceFailed():
            return event.source, f"not taken: {event.reason}"
        case SourceSynced():
            return event.report.changes.source, describe_sync(event.report)
        case NotWritten():
            return "registry", f"not written, tried again in {event.again_in_s:.1f} s: {event.reason}"


def remarks(event: WatchEvent) -> tuple[str, ...]:
    """What of a sync a person should look at: what was not taken, or not whole, and what looks suspicious."""
    if not isinstance(event, SourceSynced):
        return ()
    changes = event.report.changes
    return (
        *(f"rejected: {each.where}: {each.reason}" for each in changes.rejected),
        *(f"cut: {each.where}: {each.reason}" for each in changes.cut),
        *(f"suspicious: {each.id}: {'; '.join(each.flags)}" for each in changes.flagged),
    )


def describe_server(event: "ServerEvent") -> str:
    match event:
        case Starting():
            return "starting"
        case ServerListed():
            return f"online, {_count_text(len(event.listing.tools), 'tool')} ({event.seconds:.2f} s)"
        case Unreachable():
            return f"unreachable, tried again in {event.again_in_s:.0f} s: {event.reason}"
        case Failing():
            return f"failing, asked again in {event.again_in_s:.0f} s: {event.reason}"
        case ServerStopped():
            return "stopped"


def describe_sync(report: "SyncReport") -> str:
    changes = report.changes
    counts = (
        (len(changes.created_agents), "agent", "created"),
        (len(changes.updated_agents), "agent", "changed"),
        (len(changes.removed_agents), "agent", "removed"),
        (len(changes.created_tools), "tool", "added"),
        (len(changes.updated_tools), "tool", "changed"),
        (len(changes.removed_tools), "tool", "removed"),
        (len(changes.rejected), "record", "rejected"),
    )
    parts = [f"{_count_text(count, noun)} {what}" for count, noun, what in counts if count]
    if waiting := len(changes.waiting):
        parts.append(f"{waiting} waiting for approval")
    return f"revision {report.revision}: {', '.join(parts) or 'claims confirmed'} ({report.seconds:.2f} s)"


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
