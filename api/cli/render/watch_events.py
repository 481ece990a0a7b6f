"""What a watch prints: a line for each event, in words or as JSON."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from waygraph.api.cli.render.output import one_line, print_line
from waygraph.api.cli.render.views import notice_line
from waygraph.ingest.hosts.hosts import title_of
from waygraph.ingest.watch import events
from waygraph.registry.model.changes import ChangeSet, SyncReport
from waygraph.registry.model.foreign_text import escape_unsafe
from waygraph.registry.model.nouns import notices_of, suspicions


def line_output(describe: Callable[[events.WatchEvent], list[str]]) -> Callable[[events.WatchEvent], None]:
    """Prints the lines of an event; threads may call it."""
    lock = threading.Lock()

    def tell(event: events.WatchEvent) -> None:
        with lock:
            for line in describe(event):
                print_line(line)

    return tell


def json_line(event: events.WatchEvent) -> list[str]:
    """A JSON object."""
    return [escape_unsafe(json.dumps({"at": now(), **events.shape_of_event(event)}, ensure_ascii=False))]


def describe_lines(event: events.WatchEvent) -> list[str]:
    """In words."""
    who, what = describe_event(event)
    return [one_line(f"{now()} {who}: {text}") for text in (what, *remarks(event))]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def describe_event(event: events.WatchEvent) -> tuple[str, str]:
    """Of whom, and what, in words."""
    match event:
        case events.ServerSeen():
            return event.key, describe_server(event.event)
        case events.SourceRead():
            suffix = f", {event.rejected} rejected" if event.rejected else ""
            counts = f"{_count_text(event.servers, 'server')}, {_count_text(event.agents, 'agent')}"
            return event.source, f"read: {counts}{suffix}"
        case events.SourceFailed():
            return event.source, f"not taken: {event.reason}"
        case events.SourceSynced():
            return event.report.changes.source, describe_sync(event.report)
        case events.NotWritten():
            return "registry", f"not written, tried again in {event.again_in_s:.1f} s: {event.reason}"


def remarks(event: events.WatchEvent) -> tuple[str, ...]:
    """What of a sync a person should look at: what was not taken, or not whole, and what looks suspicious."""
    if not isinstance(event, events.SourceSynced):
        return ()
    changes = event.report.changes
    return (
        *(f"rejected: {each.where}: {each.reason}" for each in changes.rejected),
        *(f"cut: {each.where}: {each.reason}" for each in changes.cut),
        *(f"{kind}: {name}: {text}" for kind, name, text in flag_remarks(changes)),
    )


def flag_remarks(changes: ChangeSet) -> Iterator[tuple[str, str, str]]:
    """What looks suspicious and what follows of it, and one line for all notices: a kind, a name and a text."""
    for each in changes.flagged:
        if reasons := suspicions(each.flags):
            what = "calls are denied" if "/" in each.id else "no model reads its description"
            yield "suspicious", each.id, "; ".join((*reasons, f"{what} until `waygraph approve` accepts it"))
    ids = [each.id for each in changes.flagged for _ in notices_of(each.flags)]
    if ids:
        yield "notices", title_of(changes.source), notice_line(len(ids), ids[0])


def describe_server(event: events.ServerEvent) -> str:
    match event:
        case events.Starting():
            return "starting"
        case events.ServerListed():
            return f"online, {_count_text(len(event.listing.tools), 'tool')} ({event.seconds:.2f} s)"
        case events.Unreachable():
            return f"unreachable, tried again in {event.again_in_s:.0f} s: {event.reason}"
        case events.Failing():
            return f"failing, asked again in {event.again_in_s:.0f} s: {event.reason}"
        case events.ServerStopped():
            return "stopped"


def describe_sync(report: SyncReport) -> str:
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
