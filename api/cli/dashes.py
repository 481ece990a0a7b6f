"""A command line after `--`: `waygraph ingest -- uvx mcp-server-time`."""

from typing import Any

import typer

from waygraph.api.cli.quick import QuickCommand

_KEPT = "waygraph.after_dashes"


class CommandAfterDashes(QuickCommand):
    """Keeps what stands after `--` apart: it is another program's, options included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_KEPT] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARG...]"]


def after_dashes(context: typer.Context) -> list[str]:
    """The other program's command line; empty if there is none."""
    return list(context.meta.get(_KEPT, ()))
