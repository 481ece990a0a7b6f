"""How `connect` tells what became of a host's file."""

from collections.abc import Iterator
from dataclasses import asdict

from waygraph.api.cli.shown.blocks import Block, Fields, Lines, Table
from waygraph.api.cli.shown.output import note
from waygraph.api.cli.shown.pages import Connected
from waygraph.registry.wire.shapes import Shape


def shape(done: Connected) -> Shape:
    return {**asdict(done), "stays": dict(done.stays)}


def view(done: Connected) -> Iterator[Block]:
    yield Fields(
        [
            ("host", done.host),
            ("file", done.file),
            ("state", _state(done)),
            ("backup", done.backup),
            ("behind the gateway", done.taken),
            ("kept in", done.kept_in),
            ("put back", done.restored),
        ]
    )
    if done.stays:
        yield Table(("stays with the host", "reason"), list(done.stays.items()))
    if done.entry:
        yield Lines(done.entry)
    if done.difference:
        yield Lines("\n".join(done.difference))


def remark(done: Connected) -> None:
    """What a person has to do, or should know."""
    if done.entry:
        note(f"{done.host} keeps it in {done.file}; --write puts it there")
    if done.changed and not done.dry_run and done.restart:
        note(done.restart)
    if done.lacking:
        names = ", ".join(done.lacking)
        note(f"{done.host} hands on no variables of its environment: {names} must be set where it starts programs")
    if done.kept:
        note(f"the file has other servers of these names now, which stay: {', '.join(done.kept)}")


def _state(done: Connected) -> str:
    if not done.changed:
        return "as it was"
    if done.dry_run:
        return "would change"
    return "as it was before the import" if done.whole else "written"
