"""`keys`: who may call a service, by the keys that they hold."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from waygraph.api.cli.options import AsJson, invocation
from waygraph.api.cli.render.output import note, show

if TYPE_CHECKING:
    from waygraph.registry.access.api_keys import KeyFile

NOT_AGAIN = "keep the key now: only its hash is stored, and it is not shown again"

keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service.")


@keys.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will hold it, for lists and logs.")],
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", metavar="SCOPE", help="What it may do: route, read, write, cypher, use, admin. Repeat."
        ),
    ],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="See what a member of this group sees. Repeat. Default: public."),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="See every agent, hidden ones too.")] = False,
    expires_in: Annotated[
        float | None, typer.Option("--expires-in", metavar="DAYS", help="End it after so many days. Default: never.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it this once.

    waygraph keys create billing-bot --scope route --scope read --group finance --expires-in 90
    """
    from waygraph.api.cli.render import cli_json, operation_views

    file = _file(context)
    made = file.create(name, scope, group or (), everything=everything, expires_in=_days(expires_in))
    show(made, cli_json.created_key, operation_views.created_key, as_json)
    note(NOT_AGAIN)
    note(file.caution())


@keys.command("list")
def list_keys(context: typer.Context, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    from waygraph.api.cli.render import cli_json, operation_views

    file = _file(context)
    show([(key, file.state(key)) for key in file.list()], cli_json.api_keys, operation_views.api_keys, as_json)
    note(file.caution())


@keys.command()
def revoke(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `waygraph keys list` has it.")],
    as_json: AsJson = False,
) -> None:
    """End a key now, also in a service that runs."""
    from waygraph.api.cli.render import cli_json, operation_views

    file = _file(context)
    ended = file.revoke(key_id)
    show((ended, file.state(ended)), cli_json.api_key, operation_views.api_key, as_json)


def _file(context: typer.Context) -> "KeyFile":
    from waygraph.registry.access.authenticator import key_file

    told = invocation(context)
    settings = told.settings()
    told.own_place(settings)  # the keys of a service lie where it runs
    return key_file(settings)


def _days(wanted: float | None) -> timedelta | None:
    """Raises BadParameter for what is no number of days."""
    try:
        return None if wanted is None else timedelta(days=wanted)
    except (OverflowError, ValueError):
        raise typer.BadParameter(f"{wanted:g} is no number of days", param_hint="'--expires-in'") from None
