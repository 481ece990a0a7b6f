"""The options that say how sources are opened, as `ingest` and `watch` have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from waygraph.api.cli.options import Texts
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.sources.read import Ask
    from waygraph.ingest.sources.resolve import Opening


@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """What agents are called, and of which form the sources are."""

    namespace: Annotated[str, Option(metavar="NAME", help="Put before an id that another agent already has.")] = ""
    kind: Annotated[
        str, Option(metavar="KIND", help="What the sources are, such as catalogue or openapi. Default: as they look.")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How addresses and servers are reached, and which of them are asked."""

    header: Annotated[Texts, Option(metavar="'NAME: VALUE'", help="Sent to an address; may hold ${VARIABLES}.")] = None
    env: Annotated[Texts, Option(metavar="NAME[=VALUE]", help="A variable for the command after --; alone: yours.")] = (
        None
    )
    oauth: Annotated[bool, Option("--oauth", help="Log in to an address by OAuth, in your browser.")] = False
    since: Annotated[str, Option(metavar="TIME", help="Of an MCP registry: only what changed since (RFC 3339).")] = ""
    connect: Annotated[
        bool | None,
        Option(
            "--connect/--no-connect",
            help="Ask every server that can be asked for its tools, or none. Default: those of configurations.",
        ),
    ] = None
    start: Annotated[
        bool, Option("--start", help="Start and ask servers of configurations below a folder, or that fit a glob.")
    ] = False


def opening(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    registry: str,
    names: NameOptions | None = None,
    servers: ServerOptions | None = None,
    source: str = "",
    is_named: bool = True,
    ask: "Ask | None" = None,
) -> "Opening":
    """Raises BadParameter for a header or variable that cannot be read; its value is not shown."""
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.ingest.sources.resolve import Opening

    names, servers = names or NameOptions(), servers or ServerOptions()
    return Opening(
        settings=settings,
        registry=registry,
        surroundings=Surroundings.here(environ),
        headers=dict(_header(text) for text in servers.header or ()),
        env=dict(_variable(text, environ) for text in servers.env or ()),
        source=source,
        namespace=names.namespace,
        kind=names.kind,
        oauth=servers.oauth,
        since=servers.since,
        connect=servers.connect,
        start=servers.start,
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
