"""`explore`: the pages of a registry, in a browser."""

import secrets
import webbrowser
from dataclasses import replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated

import typer
from typer import Option

from waygraph.api.cli.options import invocation
from waygraph.api.cli.render.output import note

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
    evals: Annotated[
        str, Option(metavar="DIR", help="Show records of `waygraph eval` in this folder. Default: WAYGRAPH_EVALS_DIR.")
    ] = "",
) -> None:
    """See the registry in your browser, ask it, and see why it answered, until Ctrl-C.

    waygraph explore

    It listens on this machine alone. The address opens it once, within a minute: whoever else is on the machine
    cannot use it. Of a registry at a service it opens the pages that the service has.
    """
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
    settings = replace(options.settings, evals_dir=str(Path(evals).absolute())) if evals else options.settings
    with TemporaryDirectory(prefix="waygraph-") as folder:  # others on this machine cannot look into it
        page = Path(folder, "explore.html")
        explore(service, settings, show, note_shown)
