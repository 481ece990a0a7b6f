"""`mcp`, `serve` and `explore`: the registry for a host of a language model, over REST, and in a browser; `keys`: who
may call a service.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread, Timer
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, ServedNamespace, Texts, invocation
from waygraph.api.cli.render.output import Cell, Fields, Table, note
from waygraph.api.mcp import Surface
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.process import without_collection

if TYPE_CHECKING:
    from waygraph.registry.access.api_keys import KeyFile
    from waygraph.registry.model.changes import KeySummary
    from waygraph.registry.storage.local_registry import LocalRegistry


def mcp(
    context: typer.Context,
    *,
    surface: Annotated[
        Surface, Option(help="What is listed. rfc: find_tools alone, as RFC 0001 has it. router: route and execute.")
    ] = "default",
    namespace: ServedNamespace = "",
) -> None:
    """Serve the registry and its tools over MCP on standard input and output.

    waygraph mcp

    A host starts this command; `waygraph connect` writes its entry. Of a registry at a service it passes everything to
    the service's /mcp, so that many hosts share one service and the servers that it has started.
    """
    from waygraph.registry.storage.location import is_service

    options = invocation(context)
    if is_service(options.place):
        from waygraph.api.mcp.bridge import serve_bridge

        if surface != "default":
            raise typer.BadParameter("what is listed is the service's to say", param_hint="'--surface'")
        serve_bridge(str(options.place), options.settings, namespace=namespace)
    else:
        _serve(options, surface, namespace)


def _serve(options: Invocation, surface: "Surface", namespace: str) -> None:
    """Raises UnknownName for a namespace or toolset that the registry does not have; an empty place may get it yet."""
    from waygraph.registry.catalog.searchable import open_view

    with options.open_own() as registry, _loader(registry) as load_soon:
        if namespace and registry.store.exists:
            open_view(registry, namespace)  # a mistyped name fails now, not at each request
        with without_collection():
            from waygraph.api.mcp.stdio import run_stdio
            from waygraph.ingest.manifest.environment import Surroundings

        surroundings = Surroundings.here(os.environ)
        settings = options.settings
        run_stdio(registry, settings, surroundings, surface=surface, namespace=namespace, on_first_answer=load_soon)


LOAD_AFTER_S = 0.05
"""So long the answer to a host's first request has for its way out."""


@contextmanager
def _loader(registry: "LocalRegistry") -> Iterator[Callable[[], None]]:
    """What is called loads index and model in a thread: a host that introduces itself does not wait for them."""
    thread = Timer(LOAD_AFTER_S, _load, (registry,))
    thread.daemon = True
    try:
        yield thread.start
    finally:
        thread.cancel()
        if thread.is_alive():
            thread.join()  # it uses the registry, which is closed next


def _load(registry: "LocalRegistry") -> None:
    """Errors are left to the requests: they report why index or model cannot be had."""
    with suppress(WaygraphError):
        if registry.store.exists:
            registry.route("are you ready")


_SURFACE_HELP = "What the gateway lists. rfc: find_tools alone, as RFC 0001 has it. router: route and execute."


def serve(
    context: typer.Context,
    *,
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0: any that is free.")] = 8080,
    workers: Annotated[int, Option(min=1, max=64, help="How many processes answer.")] = 1,
    no_auth: Annotated[bool, Option(help="Ask nobody who they are, on any address.")] = False,
    no_mcp: Annotated[bool, Option(help="Offer REST alone, without the gateway at /mcp and /NAMESPACE/mcp.")] = False,
    surface: Annotated[Surface, Option(help=_SURFACE_HELP)] = "default",
    watch: Annotated[
        Texts, Option(metavar="SOURCE", help="Follow this source, as `waygraph watch` does. Repeat.")
    ] = None,
) -> None:
    """Offer the registry over REST, and over MCP at /mcp, until it is told to stop.

    waygraph serve --port 8080
    """
    from waygraph.api.rest.bootstrap import ServiceOptions, serve

    options = invocation(context)
    service = ServiceOptions(
        location=str(options.own_place()),
        embedder=options.embedder,
        host=host,
        port=port,
        workers=workers,
        open_to_all=no_auth,
        watch=tuple(watch or ()),
        mcp=not no_mcp,
        surface=surface,
    )
    serve(service)


LEADING_PAGE = (
    '<!doctype html><meta charset="utf-8"><title>Waygraph</title><meta http-equiv="refresh" content="0; url={address}">'
    '<a href="{address}">Waygraph</a>\n'
)
"""What a browser is told to open: everybody on a machine can read with which arguments a program was started."""


def explore(
    context: typer.Context,
    *,
    port: Annotated[int, Option(min=0, max=65535, help="The port on this machine; 0: any that is free.")] = 0,
    no_browser: Annotated[bool, Option(help="Print the address, and open nothing.")] = False,
) -> None:
    """See the registry in your browser, ask it, and see why it answered, until Ctrl-C.

    waygraph explore

    It listens on this machine alone. The address opens it once, within a minute: whoever else is on the machine
    cannot use it. Of a registry at a service it opens the pages that the service has.
    """
    import secrets
    import webbrowser
    from html import escape
    from tempfile import TemporaryDirectory

    from waygraph.registry.storage.location import is_service

    def show(address: str) -> None:
        note(f"the explorer is at {address} (for the next minute, and for one browser)")
        if no_browser:
            return
        page.touch(0o600)
        page.write_text(LEADING_PAGE.format(address=escape(address)))
        # a browser in a terminal returns when its person leaves it
        Thread(target=webbrowser.open, args=(page.as_uri(),), name="browser", daemon=True).start()

    def note_shown(is_again: bool) -> None:
        page.unlink(missing_ok=True)
        if is_again:
            note("a second browser showed the address: somebody else has it, and nobody may go on. Begin anew.")

    options = invocation(context)
    if is_service(place := str(options.place)):
        note(f"the explorer is at {place.rstrip('/')}/explore")
        if not no_browser:
            webbrowser.open(f"{place.rstrip('/')}/explore")
        return
    from waygraph.api.rest.bootstrap import ServiceOptions, explore

    service = ServiceOptions(
        location=place, embedder=options.embedder, port=port, local=f"wg_local_{secrets.token_urlsafe(32)}"
    )
    with TemporaryDirectory(prefix="waygraph-") as folder:  # others on this machine cannot look into it
        page = Path(folder, "explore.html")
        explore(service, options.settings, show, note_shown)


NOT_AGAIN = "keep the key now: only its hash is stored, and it is not shown again"

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service.")


@keys.command()
def create(
    options: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="Who will hold it, for lists and logs.")],
    *,
    scope: Annotated[
        list[str], Option(metavar="SCOPE", help="What it may do: route, read, write, cypher, use, admin. Repeat.")
    ],
    group: Annotated[
        Texts, Option(metavar="GROUP", help="See what a member of this group sees. Repeat. Default: public.")
    ] = None,
    everything: Annotated[bool, Option(help="See every agent, hidden ones too.")] = False,
    toolset: Annotated[str, Option(metavar="NAME", help="Reach the endpoint /NAME/mcp of this toolset alone.")] = "",
    expires_in: Annotated[
        float | None, Option(metavar="DAYS", help="End it after so many days. Default: never.")
    ] = None,
) -> None:
    """Make a key, and print it this once.

    waygraph keys create billing-bot --scope route --scope read --group finance --expires-in 90
    """
    try:
        lasts = None if expires_in is None else timedelta(days=expires_in)
    except (OverflowError, ValueError):
        raise typer.BadParameter(f"{expires_in:g} is no number of days", param_hint="'--expires-in'") from None
    file = _file(options)
    new_key = file.create(name, scope, group or (), everything=everything, toolset=toolset, expires_in=lasts)
    columns = f"key, id, name, {_KEY_COLUMNS}"
    options.show(file.new_key(*new_key), lambda key: [Fields.of(key, columns, sees=_sees)])
    note(NOT_AGAIN)
    note(file.caution())


@keys.command("list")
def list_keys(options: Invocation) -> None:
    """List the keys, without their secrets."""
    file = _file(options)
    keys = list(map(file.summary, file.list()))
    columns = f"id, name, state, {_KEY_COLUMNS}"
    options.show(keys, lambda keys: [Table.of(keys, columns, sees=_sees)], lambda keys: {"keys": shapes.shape(keys)})
    note(file.caution())


@keys.command()
def revoke(
    options: Invocation,
    key_id: Annotated[str, Argument(metavar="ID", help="The key's id, as `waygraph keys list` has it.")],
) -> None:
    """End a key now, also in a service that runs."""
    from waygraph.ingest.logins.store import login_file

    file = _file(options)
    key = file.revoke(key_id)
    login_file(options.settings).forget(f"key:{key.id}")  # nobody else gets them
    columns = f"id, name, {_KEY_COLUMNS}, state, revoked=revoked_at"
    options.show(file.summary(key), lambda key: [Fields.of(key, columns, sees=_sees)])


def _file(options: Invocation) -> "KeyFile":
    from waygraph.registry.access.authenticator import key_file

    options.own_place()  # the keys of a service lie where it runs
    return key_file(options.settings)


_KEY_COLUMNS = "scopes, sees, created=created_at, expires=expires_at"


def _sees(key: "KeySummary") -> Cell:
    sees: Cell = "everything" if key.everything else key.groups or "what is public"
    return f"toolset {key.toolset}" if key.toolset else sees
