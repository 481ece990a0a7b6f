"""What a watch prints: a line for each event, in words or as JSON."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from waygraph.api.cli.render.output import one_line, print_line
from waygraph.api.cli.render.views import notice_line
from waygraph.ingest.hosts.hosts import title_of
from waygraph.ingest.watch import events
from waygraph.registry.model.changes import ChangeSet
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
    """Of whom, what, and its figures but for those that are 0; then what of it a person should look at."""
    facts = events.facts_of_event(event)
    source, what = facts.pop("source", "registry"), facts.pop("event")
    who = facts.pop("server", source)
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if value)
    texts = (f"{what}: {figures}" if figures else what, *remarks(event))
    return [one_line(f"{now()} {who}: {text}") for text in texts]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
