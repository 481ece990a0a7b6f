"""`logins`: whose logins are kept at servers that are called as each caller, and the one of this machine's own user."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from waygraph.api.cli.options import Invocation, invocation
from waygraph.api.cli.render.output import Table, note, read_fields
from waygraph.ingest.logins.store import Login, LoginFile, login_file
from waygraph.ingest.manifest.records import LOGIN_TIMEOUT_S

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Agent
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry

logins = typer.Typer(no_args_is_help=True, help="List, make and remove callers' own logins at servers.")


@logins.command("list")
def list_logins(options: Invocation) -> None:
    """List whose logins are kept, and where; it needs no key."""
    _show(options, _file(options).list())


@logins.command()
def remove(
    options: Invocation,
    caller: Annotated[str, Argument(metavar="CALLER", help="As the list names it: key:…, oidc:… or local.")],
    agent: Annotated[str, Argument(metavar="AGENT", help="An agent's id. Default: all.")] = "",
) -> None:
    """Remove a caller's logins, also in a service that runs: the next call has none."""
    if not caller.strip():
        raise typer.BadParameter("name a caller", param_hint="'CALLER'")
    _show(options, _file(options).forget(caller, agent))


@logins.command()
def add(context: typer.Context, agent: Annotated[str, Argument(metavar="AGENT", help="An agent's id.")]) -> None:
    """Log in at an agent's server, for calls on this machine: `waygraph mcp`, and a service without authentication.

    waygraph logins add github
    """
    import anyio

    options = invocation(context)
    with options.open_own() as registry:
        anyio.run(_log_in, registry, options.settings, registry.agent(agent), dict(os.environ))
    note(f"calls on this machine act with your account at {agent}")


def _show(options: Invocation, logins: Iterable[Login]) -> None:
    """Whose they are, never their tokens."""
    options.show(
        list(logins),
        lambda each: [Table.of(each, "caller, agent=agent_id, by, since=at")],
        lambda each: {"logins": [dict(read_fields(login, "caller, agent_id, by, at")) for login in each]},
    )


def _file(options: Invocation) -> LoginFile:
    options.own_place()  # they lie where the gateway runs
    return login_file(options.settings)


async def _log_in(registry: "LocalRegistry", settings: "Settings", agent: "Agent", environ: dict[str, str]) -> None:
    """Raises BadParameter for an agent that is called as the operator."""
    from waygraph.api.cli.render.progress import open_page
    from waygraph.ingest.execution.executor import open_executor
    from waygraph.ingest.logins.callers import LOCAL_USER
    from waygraph.ingest.logins.oauth import listen_for_callback
    from waygraph.ingest.manifest.environment import Surroundings

    async with open_executor(registry, settings, Surroundings.here(environ)) as executor:
        logins = executor.logins
        rule = logins.rule(agent.id) if logins else None
        if logins is None or rule is None or not rule.takes_login:
            raise typer.BadParameter(
                f"nobody logs in at {agent.id!r}: see [[login]] in docs/calling.md", param_hint="AGENT"
            )
        if rule.by == "header":
            logins.file.check_key()
            key = typer.prompt(f"Your key at {agent.id}", hide_input=True, err=True)
            await logins.set_key(LOCAL_USER, agent, key)
            return
        port = rule.callback_port
        async with listen_for_callback(LOGIN_TIMEOUT_S, port, is_fixed=bool(port)) as callback:
            page = await logins.begin(LOCAL_USER, agent, callback.address, "")
            while page:
                open_page(page)
                page = await logins.finish(LOCAL_USER, agent, callback.address, "", await callback.query())
