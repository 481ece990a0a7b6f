"""`changes` and `approve`: what sources changed, and what is in routing because somebody looked at it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import note, show

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def changes(
    context: typer.Context,
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Only from then on: a time in ISO 8601, or 2h, 3d ago.")
    ] = "",
    agent: Annotated[str, typer.Option("--agent", metavar="ID", help="Only of this agent and its tools.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-k", min=1, help="How many to give at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List what sources changed of agents that were known before, the newest first.

    waygraph changes --since 2d --agent harbor-git
    """
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    start = since_when(since, datetime.now(UTC))
    with invocation(context).open() as registry:
        found = registry.changes(since=start, agent_id=agent, limit=limit)
    show(found, shapes.changes, operation_views.changes, as_json)
    if not found and not as_json:
        note("no change was recorded" + (" since then" if since else ""))


def approve(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="An agent's id, with all its tools that wait; agent/tool, or a call name."),
    ] = None,
    *,
    all_of: Annotated[
        list[str] | None, typer.Option("--all-of", metavar="SOURCE", help="All that waits of this source. Repeat.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let what waits into routing, as it is now; also accept flagged texts.

    waygraph approve harbor-git
    """
    from waygraph.registry.storage.approval import OF_SOURCE

    if not (names or all_of):
        raise typer.BadParameter("say what to approve, or --all-of SOURCE", param_hint="'NAME'")
    from waygraph.api.cli.commands.operate import held_source
    from waygraph.api.cli.render import operation_views
    from waygraph.registry.model import shapes

    with invocation(context).open() as registry:
        sources = [f"{OF_SOURCE}{held_source(registry, source)}" for source in all_of or ()]
        done = registry.approve(*(names or ()), *sources)
    show(done, shapes.shape, operation_views.view_approval, as_json)
    if not (done.agents or done.tools or as_json):
        note("nothing of it waited")


def since_when(text: str, now: datetime) -> str:
    """A time in ISO 8601 as it is; `2h` as the time that long before `now`. Raises BadParameter."""
    ago = _AGO.fullmatch(text.strip())
    if ago:
        try:
            return (now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).isoformat()
        except OverflowError:
            return ""
    try:
        datetime.fromisoformat(text or now.isoformat())
    except ValueError:
        said = f"{text!r} is neither a time in ISO 8601 nor one such as 2h or 3d"
        raise typer.BadParameter(said, param_hint="'--since'") from None
    return text
