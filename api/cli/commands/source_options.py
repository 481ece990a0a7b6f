"""The options that say how sources are opened, as `ingest` and `watch` have them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli import options
from waygraph.api.cli.render.output import note
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.hosts.hosts import KnownConfig
    from waygraph.ingest.sources.opening import Opening
    from waygraph.ingest.sources.read import Ask


Namespace = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="Put before an id that another agent already has.")
]
SourceKind = Annotated[
    str,
    typer.Option(
        "--kind", metavar="KIND", help="What the sources are, such as catalogue or openapi. Default: as they look."
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="Sent to an address; may hold ${VARIABLES}."),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME[=VALUE]", help="A variable for the command after --; alone: yours."),
]
OAuth = Annotated[bool, typer.Option("--oauth", help="Log in to an address by OAuth, in your browser.")]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Of an MCP registry: only what changed since (RFC 3339).")
]
Policy = Annotated[
    options.Policy | None,
    typer.Option(
        "--policy",
        help="What becomes of changes: accept; hold what is changed or added after the first time till it is "
        "approved; strict: hold all. Default: as it was.",
    ),
]
Connect = Annotated[
    bool | None,
    typer.Option(
        "--connect/--no-connect",
        help="Ask every server that can be asked for its tools, or none. Default: those of configurations.",
    ),
]
Start = Annotated[
    bool,
    typer.Option("--start", help="Start and ask servers of configurations below a folder, or that fit a glob."),
]


def opening(
    settings: "Settings",
    environ: Mapping[str, str],
    *,
    registry: str,
    headers: Sequence[str] | None,
    env: Sequence[str] | None,
    source: str = "",
    namespace: str = "",
    kind: str = "",
    oauth: bool = False,
    since: str = "",
    connect: bool | None = None,
    start: bool = False,
    is_named: bool = True,
    ask: "Ask | None" = None,
) -> "Opening":
    """Raises BadParameter for a header or variable that cannot be read; its value is not shown."""
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.ingest.sources.opening import Opening

    return Opening(
        settings=settings,
        registry=registry,
        surroundings=Surroundings.here(environ),
        headers=dict(_header(text) for text in headers or ()),
        env=dict(_variable(text, environ) for text in env or ()),
        source=source,
        namespace=namespace,
        kind=kind,
        oauth=oauth,
        since=since,
        connect=connect,
        start=start,
        is_named=is_named,
        ask=ask,
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not value.strip():
        raise typer.BadParameter("expected 'NAME: VALUE'", param_hint="'--header'")
    return name.strip(), value.strip()


def _variable(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or (not equals and name not in environ):
        raise typer.BadParameter(f"{name or 'a variable without a name'}: not set here", param_hint="'--env'")
    return name, value if equals else f"${{{name}}}"


def chosen_configs(settings: Settings, environ: Mapping[str, str], *, all_of_them: bool) -> list[str]:
    """Paths of the hosts' configurations to use. Without a terminal to ask on and without `all_of_them`: none."""
    from waygraph.ingest.hosts.hosts import known_configs

    configs = known_configs(Path.home(), environ, sys.platform, Path.cwd(), settings=settings)
    if not configs:
        note("no configuration of a known host was found in its usual place; `waygraph connect --help` lists the hosts")
    return [str(config.path) for config in configs if _is_chosen(config, all_of_them=all_of_them)]


def _is_chosen(config: "KnownConfig", *, all_of_them: bool) -> bool:
    label = f"{config.client}: {config.path}"
    if config.fault:
        note(f"{label} {config.fault}")
        return False
    if config.gateways and not config.servers:
        note(f"{label}: not used, since it names nothing but Waygraph's own gateway")
        return False
    servers = f"{config.servers} {'server' if config.servers == 1 else 'servers'}"
    if all_of_them:
        note(f"{label}, {servers}")
        return True
    if not sys.stdin.isatty():
        note(f"{label}, {servers}: not used, since nobody can be asked here; --yes uses all")
        return False
    return typer.confirm(f"{label}, {servers}. Start them and ingest what they offer?", default=False, err=True)
