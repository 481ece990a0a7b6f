"""`ingest --discover`: the configurations of MCP hosts on this machine, each used only if the person says so."""

import sys
from collections.abc import Mapping
from pathlib import Path

import typer

from waygraph.api.cli.shown.output import note
from waygraph.ingest.sources.known_places import KnownConfig, known_configs
from waygraph.registry.settings import Settings


def chosen_configs(settings: Settings, environ: Mapping[str, str], *, all_of_them: bool) -> list[str]:
    """Paths of those to use. Without a terminal to ask on, and not told to use all, none is."""
    found = known_configs(Path.home(), environ, sys.platform, Path.cwd(), settings=settings)
    if not found:
        note("no configuration of Claude Desktop, Claude Code, Cursor or VS Code was found in its usual place")
    return [str(config.path) for config in found if _is_chosen(config, all_of_them=all_of_them)]


def _is_chosen(config: KnownConfig, *, all_of_them: bool) -> bool:
    told = f"{config.client}: {config.path}"
    if config.fault:
        note(f"{told} {config.fault}")
        return False
    servers = f"{config.servers} {'server' if config.servers == 1 else 'servers'}"
    if all_of_them:
        note(f"{told}, {servers}")
        return True
    if not sys.stdin.isatty():
        note(f"{told}, {servers}: not used, since nobody can be asked here; --yes uses all")
        return False
    return typer.confirm(f"{told}, {servers}. Start them and ingest what they offer?", default=False, err=True)
