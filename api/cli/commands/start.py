"""`start`: leads from nothing to hosts that are connected."""

import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from waygraph.api.cli.options import Invocation, invocation, opening
from waygraph.api.cli.render.output import Block, Cell, Lines, Table, complain, note, one_line, one_lines, show
from waygraph.api.telemetry.logs import without_secrets
from waygraph.ingest.hosts.hosts import HOSTS, Host, KnownConfig, known_configs
from waygraph.ingest.manifest.fields import fields_of, items_of
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.registry.access.policy import danger_in, load_policy, says_that_it_reads
from waygraph.registry.model.errors import CallTimedOut, UpstreamRefused, WaygraphError
from waygraph.registry.model.files import absolute_place

if TYPE_CHECKING:
    from waygraph.api.cli.commands.ingest import Outcome
    from waygraph.registry.model.changes import Rejected
    from waygraph.registry.model.nouns import Tool
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry

CHECK = "waygraph connect --check"
MOST_SHOWN_CHARS, MOST_RESULT_CHARS = 2_000, 200
"""Of a tool's text; of a call's result, which is shown as proof that it came."""
EXAMPLES = {
    "uvx": "waygraph ingest -- uvx mcp-server-time",
    "npx": "waygraph ingest -- npx -y @modelcontextprotocol/server-everything",
    "sh": """echo '{"waygraph":1,"agents":[{"id":"clock","tools":[{"name":"tell_time"}]}]}' | waygraph ingest -""",
}
"""By the program that has to be here: servers that run, and a catalogue."""


def _print(*blocks: Block) -> None:
    show(blocks, list, lambda blocks: blocks, False)


def here(place: str | Path) -> str:
    """A path as a person writes it."""
    text, home = str(place), f"{Path.home()}{os.sep}"
    return f"~/{text.removeprefix(home)}" if text.startswith(home) else text


def _configs(settings: "Settings") -> list[KnownConfig]:
    return known_configs(Path.home(), os.environ, sys.platform, Path.cwd(), settings=settings)


def start(
    context: typer.Context,
    *,
    yes: Annotated[
        bool, Option(help="Ask nothing: start the servers of your own files, not of projects, and connect their hosts.")
    ] = False,
) -> None:
    """Find the MCP servers of the hosts on this machine, take them in, try them, and connect the hosts.

    waygraph start

    Before a server is started, and before a host's file is changed, it asks.
    """
    options = invocation(context)
    settings = options.settings
    location = absolute_place(options.own_place())  # a service would not find how to start them
    if not (yes or sys.stdin.isatty()):
        raise typer.BadParameter("nobody can be asked here; --yes starts and connects all", param_hint="'--yes'")
    if configs := _configs(settings):
        columns = "host=client, file, servers"
        _print(Table.of(configs, columns, file=lambda each: here(each.path), servers=_describe_servers))
    usable = [each for each in configs if each.names]
    clients = [each for each in configs if each.reaches(location)]
    if not (usable or clients):
        _offer_example(configs, location)
        raise typer.Exit(1)
    if usable:
        note("What is taken in can be used by every host that is connected, whichever had it.")
    choice = [config for config in usable if _is_chosen(config, yes=yes)]
    if usable and not (choice or clients):
        note("nothing was started; `waygraph ingest FILE` takes in one of these files")
        return
    if choice and _is_to_isolate(choice, settings, yes=yes):
        os.environ["WAYGRAPH_ISOLATE"] = "true"  # from here on, and in the entries of hosts
        settings = replace(settings, isolate=True)
    answering = _take_in(options, settings, choice, yes=yes) if choice else []
    hosts = [config for config, stays in answering if _connect(options, config, stays, yes=yes)]
    _offer_gateway(configs, location, [config.host for config in hosts])
    if not (answering or clients):
        raise typer.Exit(1)
    _try_out(options, settings, [each for each in configs if each in hosts or each in clients])


def _describe_servers(config: KnownConfig) -> Cell:
    return config.fault or config.names or ("Waygraph's gateway alone" if config.gateways else "none")


def _is_chosen(config: KnownConfig, *, yes: bool) -> bool:
    """It shows what would be started."""
    from waygraph.api.cli.commands.ingest import is_chosen

    if config.commands:
        _print(Lines("\n".join(one_lines(config.commands))))
    return is_chosen(config, all_of_them=yes)


def _is_to_isolate(configs: Sequence[KnownConfig], settings: "Settings", *, yes: bool) -> bool:
    """It shows what each server could read, write and reach."""
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.ingest.manifest.records import Intake
    from waygraph.ingest.sources.formats import mcp_config
    from waygraph.ingest.sources.parse import parse_file
    from waygraph.ingest.upstream.box import profiles_of, sandlock_library

    try:
        sandlock_library()
    except UpstreamRefused as refusal:
        note(f"What is started may read your files and reach any address: no server here {refusal.reason}")
        return settings.isolate
    rows = []
    for config in configs:
        path, around = str(config.path), Surroundings.here(os.environ)
        document = mcp_config.as_config(parse_file(path, settings), path)
        servers = mcp_config.servers(document, path, Intake(where=path, surroundings=around))
        rows += profiles_of(servers, os.environ, settings)
    if rows:
        _print(Table.of(rows, "server, may=access, what, why"))
    question = "Confine each of them to this and to a folder of its own?"
    return settings.isolate or (bool(rows) and (yes or typer.confirm(question, default=True, err=True)))


def _offer_gateway(configs: Sequence[KnownConfig], location: str, new_hosts: Collection[Host]) -> None:
    """Hosts that do not have the gateway: they can have it without its taking over anything."""
    names = {config.host.name for config in configs if config.reaches(location)} | {host.name for host in new_hosts}
    ids = {each.client: each.host.id for each in configs if not each.fault and each.client not in names}
    if ids:
        note(f"not connected: {', '.join(ids)}. The gateway alone: waygraph connect {next(iter(ids.values()))} --write")


def _offer_example(configs: Sequence[KnownConfig], location: str) -> None:
    """Where no server was found: what was looked for, and what can be done now."""
    _offer_gateway(configs, location, ())
    note(f"no server was found in the files of {', '.join(host.name for host in HOSTS.values())}")
    example = next((line for program, line in EXAMPLES.items() if shutil.which(program)), EXAMPLES["sh"])
    _print(Lines(f"An example to try:\n{example}"))


def _take_in(
    options: Invocation, settings: "Settings", configs: Sequence[KnownConfig], *, yes: bool
) -> list[tuple[KnownConfig, Mapping[str, str]]]:
    """Asks the servers, and a person about tools that will not run; the configs of which something was taken in, each
    with its servers that stay with their host, and why.
    """
    from waygraph.api.cli.commands.ingest import outcomes
    from waygraph.api.cli.render.progress import ask_servers, progress_bar
    from waygraph.ingest.pipeline import Ingestion

    with options.open_own() as registry:
        with progress_bar("Embedding") as progress:
            how = opening(settings, os.environ, registry=registry.store.place, ask=partial(ask_servers, settings))
            paths = [str(config.path) for config in configs]
            results = list(outcomes(Ingestion(opening=how), registry, paths, (), progress))
        pairs = list(zip(configs, results, strict=False))  # the registry may have refused one, and what follows
        for config, result in pairs:
            _report(config, result)
        note(" ".join(sorted({result.report.notice for result in results if result.report})))
        reasons = _review_tools(registry, settings, yes=yes)
        keys = {each.name: dict(each.claims) for each in registry.sources()} if reasons else {}
    return [
        (
            config,
            {fault.key: fault.reason for fault in _faults(result) if fault.key}
            | {
                key: reasons[each]
                for key, each in keys.get(result.report.changes.source if result.report else "", {}).items()
                if each in reasons
            },
        )
        for config, result in pairs
        if not result.is_failure
    ]


def _review_tools(registry: "LocalRegistry", settings: "Settings", *, yes: bool) -> dict[str, str]:
    """Says which tools will not run, and why; a person may approve them. The agents of the others, each with why its
    server stays with its host.
    """
    from waygraph.registry.catalog.find import judging
    from waygraph.registry.model.nouns import is_doubtful

    agents, stays = {agent.id: agent for agent in registry.agents()} if registry.store.exists else {}, dict[str, str]()
    judges = judging(registry, load_policy(settings.policy_file), None)
    for tool in registry.tools() if agents else ():
        judgement = judges.judge(agents[tool.agent_id], tool, by_name=True)
        entities = (tool, agents[tool.agent_id])
        if judgement.verdict != "deny":
            continue
        if any(each.rejection for each in entities) or not any(each.pending or is_doubtful(each) for each in entities):
            note(f"{tool.id} will not run: {tool.rejection or judgement.reason}")
            continue
        _print(Lines(f"{tool.id} will not run: {judgement.reason}\n{one_line(tool.description)[:MOST_SHOWN_CHARS]}"))
        if not yes and typer.confirm(f"Approve {tool.id}?", default=False, err=True):
            registry.operator.approve(hashes={each.id: each.content_hash for each in entities})
        else:
            stays[tool.agent_id] = f"{tool.id} would not run behind the gateway: `waygraph approve {tool.id}`"
    return stays


def _faults(outcome: "Outcome") -> "Sequence[Rejected]":
    return outcome.report.changes.rejected if outcome.report else ()


def _report(config: KnownConfig, outcome: "Outcome") -> None:
    """What failed, and what that means."""
    if outcome.report is None:
        complain(outcome.error)
    for fault in _faults(outcome):
        note(f"{fault.key or fault.where} stays with {config.client}, and no request finds it: {fault.reason}")
    if outcome.is_failure:
        note(f"nothing of {config.client} was taken in, and its file stays as it is: `waygraph start` tries again")


def _try_out(options: Invocation, settings: "Settings", hosts: Sequence[KnownConfig]) -> None:
    """Calls one tool that only reads as the first host will: by its entry."""
    from waygraph.api.cli.commands.connect import EntryOptions, target_of

    if not hosts:
        return
    with options.open_own() as registry:
        tools = registry.tools() if registry.store.exists else ()
    host = hosts[0].host
    if callable_tools := list(filter(_runs_at_once, tools)):
        target = target_of(options, host.id, EntryOptions(file=str(hosts[0].path)))
        _print(Lines(_call(target.config.servers[target.name], callable_tools[0], host, settings)))
    else:
        note("no tool that only reads runs without arguments, so none was called")
    wish = "something that one of these tools does"
    _print(Lines(f"Now ask {host.name} for {wish}\nThen see it arrive: {CHECK} {host.id}"))


def _runs_at_once(tool: "Tool") -> bool:
    """Whether its server and its name say that it only reads, and it needs no arguments."""
    from waygraph.registry.model.parameters import parameters_of_text

    is_harmless = danger_in(tool.annotations) == "reads" and says_that_it_reads(tool.name)
    return is_harmless and not (tool.pending or tool.flags or parameters_of_text(tool.input_schema).required)


def _call(entry: object, tool: "Tool", host: Host, settings: "Settings") -> str:
    """What a call by the entry of a host comes to. It does not count as the host's own."""
    import anyio

    from waygraph.ingest.manifest.environment import Scope, Surroundings
    from waygraph.ingest.sources.formats.configured_server import launch_of, read_server
    from waygraph.ingest.upstream.connection import Deaf
    from waygraph.ingest.upstream.open import connect

    environ = {**os.environ, "WAYGRAPH_USAGE": "false"}
    server = read_server(entry, bare_variables=host.bare_variables)
    server = replace(server, env={**server.env, "WAYGRAPH_USAGE": "false"})

    async def call() -> Mapping[str, object]:
        launch = launch_of(server, Scope(surroundings=Surroundings.here(environ)))
        async with connect(launch, replace(settings, isolate=False)) as gateway:  # it confines servers itself
            request = {"name": tool.call_name, "params": {}}
            with anyio.move_on_after(settings.call_timeout_s):
                return await gateway.call("use_tool", request, host=Deaf())
        raise CallTimedOut("use_tool", settings.call_timeout_s)

    try:
        result = anyio.run(call)
    except (WaygraphError, Faulty) as error:
        return f"{tool.id} was called by {host.name}'s entry, and failed: {error}"
    texts = [str(part["text"]) for part in items_of(result.get("content")) if "text" in fields_of(part)]
    verb = "reported an error" if result.get("isError") else "answered"
    text = without_secrets(one_line(" ".join(texts)))[:MOST_RESULT_CHARS]
    return f"{tool.id}, called by {host.name}'s entry, {verb}: {text}"


def _connect(options: Invocation, config: KnownConfig, stays: Mapping[str, str], *, yes: bool) -> bool:
    """Whether the host starts the gateway now, with its servers behind it but for those that stay. It shows what would
    change, and asks.
    """
    from waygraph.api.cli.commands.connect import EntryOptions, change_host, remark, target_of, view_outcome

    if config.is_only_read:
        note(f"{here(config.path)} is only read: waygraph connect {config.host.id} --write")
        return False
    try:
        target = replace(target_of(options, config.host.id, EntryOptions(file=str(config.path))), stays=stays)
        if not yes:
            _print(*view_outcome(change_host(options, target, "--import", dry_run=True)))
            if not typer.confirm(f"Change {config.client}'s file so? A backup is kept.", default=False, err=True):
                note(f"later: waygraph connect {config.host.id} --import")
                return False
        outcome = change_host(options, target, "--import", dry_run=False)
    except WaygraphError as error:
        complain(f"{config.client} is not connected: {error}")
        return False
    _print(*view_outcome(outcome))
    remark(outcome)
    return True
