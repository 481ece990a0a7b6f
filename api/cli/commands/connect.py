"""`connect`: a host's config gets the entry by which it starts this gateway; its own servers can go behind it."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, ServedNamespace, opening
from waygraph.api.cli.render.output import Block, Fields, Lines, Table, note, print_raw
from waygraph.api.cli.render.progress import ask_servers, progress_bar
from waygraph.api.mcp import Surface
from waygraph.ingest.hosts import hosts
from waygraph.ingest.hosts.backup import TAKEOVER_TIMEOUT_S, rewrite_file, shelf_of, turn
from waygraph.ingest.hosts.config import HostConfig, check_is_ours, difference, read_config
from waygraph.ingest.hosts.takeover import Target, gateway_for, offer_of, plan_takeover, put_back, take_over, write_back
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.own_gateway import option_of, registry_of
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.pipeline import Ingestion
from waygraph.ingest.sources.opening import open_sources
from waygraph.ingest.sources.read import with_answers
from waygraph.registry.model.errors import InvalidSetting, SourceError, UnknownName, WaygraphError
from waygraph.registry.model.files import absolute_place
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import is_service


@dataclass(frozen=True, kw_only=True)
class EntryOptions:
    """Which file, and which entry."""

    url: Annotated[bool, Option(help="Of a registry at a service: let the host reach its /mcp by itself.")] = False
    project: Annotated[bool, Option(help="The file of the project in this folder, not the user's own.")] = False
    file: Annotated[str, Option(metavar="PATH", help="This file, in the host's form.")] = ""
    entry_name: Annotated[str, Option("--name", metavar="NAME", help="What the entry is called.")] = "waygraph"
    namespace: ServedNamespace = ""
    surface: Annotated[
        Surface | None, Option(help="What the host sees, as `waygraph mcp` has it. Default: as its entry says.")
    ] = None


_HOSTS_HELP = "claude, claude-code, codex, cursor, gemini-cli, vscode, vscode-insiders, windsurf or zed."


def connect(
    options: Invocation,
    name: Annotated[str, Argument(metavar="HOST", help=_HOSTS_HELP)] = "",
    *,
    write: Annotated[bool, Option(help="Put the entry into the host's file; a backup is kept.")] = False,
    remove: Annotated[bool, Option(help="Take the entry out again.")] = False,
    take: Annotated[
        bool, Option("--import", help="Put the servers that the host has now behind the gateway, and the entry there.")
    ] = False,
    restore: Annotated[bool, Option(help="Put those servers back.")] = False,
    dry_run: Annotated[
        bool, Option(help="Show what would change in the host's file, without secrets; change nothing.")
    ] = False,
    check: Annotated[
        bool, Option(help="Wait till the host, or without HOST any, has called a tool through the gateway.")
    ] = False,
    timeout: Annotated[
        float, Option(metavar="SECONDS", min=0, help="Of --check: so long it waits before it ends with 1.")
    ] = 300.0,
    entry: EntryOptions,
) -> None:
    """Print the entry by which a host starts this gateway, or write it into the host's config.

    waygraph connect cursor --write

    waygraph connect claude --import

    waygraph connect claude --check
    """
    actions = {"--write": write, "--remove": remove, "--import": take, "--restore": restore, "--check": check}
    flags = [option for option, is_set in actions.items() if is_set]
    if len(flags) > 1:
        raise typer.BadParameter(f"one at a time, not {' and '.join(flags)}", param_hint=f"'{flags[1]}'")
    if not (name or check):
        raise typer.BadParameter("name a host", param_hint="'HOST'")
    target = target_of(options, name, entry) if name else None
    if check:
        from waygraph.api.cli.commands.host_check import check_host

        check_host(options, target.config if target else None, timeout)
    elif target:
        outcome = change_host(options, target, flags[0] if flags else "", dry_run=dry_run)
        if flags or options.as_json:
            options.show(outcome, view_outcome, asdict)
        else:
            print_raw(f"{outcome.entry}\n")
        remark(outcome)


def change_host(options: Invocation, target: Target, flag: str, *, dry_run: bool) -> "ConnectOutcome":
    """What `connect` does by one of its options, such as --import; without any the entry alone."""
    if not flag:
        config = HostConfig(target.config.host, target.config.path, None)  # of a file with nothing else in it
        config = config.with_servers({target.name: hosts.entry_of(config.host, target.gateway)})
        return replace(_apply(target, target.config, dry_run=False), entry=(config.text or "").rstrip("\n"))
    if flag in _CHANGES:
        return _rewrite(target, partial(_CHANGES[flag], target), dry_run=dry_run)
    if flag == "--import":
        check_is_ours(target.config, target.name)
    with nullcontext() if dry_run else turn(target.shelf.folder, timeout_s=TAKEOVER_TIMEOUT_S):
        # one after the other, each of the file as it is
        target = replace(target, config=read_config(target.config.host, target.config.path))
        return (_take_over if flag == "--import" else _restore)(options, target, dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOutcome:
    """What became of a host's file. `difference`: lines, without secrets; only of a dry run.

    `taken`, `stays`: servers that went behind the gateway, and those that did not, each with its reason. `restored`,
    `kept`: those that came back, and those whose name the file has given to another meanwhile; `whole`: the file is as
    it was before. `lacking`: variables that the host cannot hand on.
    """

    host: str
    file: str
    changed: bool
    dry_run: bool
    entry: str = ""
    """As a file with nothing else in it would have it; only where nothing was to be done."""
    restart: str = ""
    backup: str = ""
    difference: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    stays: Mapping[str, str] = field(default_factory=dict)
    kept_in: str = ""
    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    whole: bool = False
    lacking: tuple[str, ...] = ()
    former_place: str = ""
    """The registry or address of the gateway's entry before, where that is another."""
    silent: Mapping[str, str] = field(default_factory=dict)
    """Servers that came back and could not be taken in again, each with its reason."""


def target_of(options: Invocation, name: str, entry: EntryOptions) -> Target:
    host = hosts.host_named(name)
    places = hosts.Places(home=Path.home(), environ=os.environ, platform=sys.platform, cwd=Path.cwd())
    usual = host.file(places)
    path = hosts.absolute(entry.file, places.cwd) if entry.file else host.file(places, project=entry.project)
    # In the home itself a project's file is the user's own.
    is_of_project = path == host.project_file(places) and (entry.project or path != usual)
    project = places.cwd if is_of_project else None
    if project:
        hosts.refuse_outside(path, project)
    config = read_config(host, path)
    return Target(
        config=config,
        gateway=_gateway(options, entry, option_of(config.servers.get(entry.entry_name), "--surface")),
        name=entry.entry_name,
        shelf=shelf_of(options.settings.data_path, host.id, path, usual),
        project=project,
        folder=str(places.cwd) if host.folders and project is None else "",
    )


def _gateway(options: Invocation, entry: EntryOptions, former_surface: str) -> hosts.Gateway:
    """Raises InvalidSetting for --url without a service, and --surface with one."""
    place = options.place
    if entry.url and not is_service(place):
        raise InvalidSetting("--url is for a registry at a service: give its address by --registry https://HOST")
    if entry.surface and is_service(place):
        raise InvalidSetting("--surface is the service's to say: `waygraph serve --surface`")
    if entry.url:
        return hosts.service_entry(str(place), os.environ, namespace=entry.namespace)
    program, location = hosts.program_of(sys.executable), absolute_place(place)
    surface = "" if is_service(place) else entry.surface or former_surface
    surface = surface if surface in get_args(Surface)[1:] else ""
    return hosts.start_entry(
        program, location, os.environ, embedder=options.embedder, namespace=entry.namespace, surface=surface
    )


def _with_gateway(target: Target, config: HostConfig) -> HostConfig:
    check_is_ours(config, target.name)
    entry = hosts.entry_of(config.host, gateway_for(target.gateway, target.shelf.servers()))
    return config.with_servers({target.name: entry})


def _without_gateway(target: Target, config: HostConfig) -> HostConfig:
    check_is_ours(config, target.name)
    if target.name in config.servers and target.shelf.takes():
        raise SourceError(str(config.path), "its servers are behind the gateway: --restore puts them back")
    return config.without_servers([target.name])


_CHANGES: Mapping[str, Callable[[Target, HostConfig], HostConfig]] = {
    "--write": _with_gateway,
    "--remove": _without_gateway,
}


def _rewrite(target: Target, change: Callable[[HostConfig], HostConfig], *, dry_run: bool) -> ConnectOutcome:
    outcome = _apply(target, change(target.config), dry_run=dry_run)
    if dry_run or not outcome.changed:
        return outcome
    _, backup = rewrite_file(target.config, change)
    return replace(outcome, backup=str(backup or ""))


def _take_over(options: Invocation, target: Target, dry_run: bool) -> ConnectOutcome:
    options.own_place()  # a service would not find how to start them
    if not (offer := offer_of(target)).servers:  # only the gateway itself is left to put there
        return replace(change_host(options, target, "--write", dry_run=dry_run), stays=offer.stays)
    if dry_run:
        outcome = _apply(target, plan_takeover(target, offer), dry_run=True)
        return replace(outcome, taken=tuple(offer.servers), stays=offer.stays)
    with options.open_own() as registry:
        takeover = take_over(target, offer, partial(_ask, registry, options.settings))
        _ask_again(registry, options.settings, target.config.path)
    return replace(
        _apply(target, takeover.after, dry_run=False),
        taken=takeover.names,
        stays=takeover.stays,
        backup=str(takeover.backup or ""),
        kept_in=str(target.shelf.config),
    )


def _restore(options: Invocation, target: Target, dry_run: bool) -> ConnectOutcome:
    options.own_place()
    back = put_back(target.config, target.name, target.shelf)
    outcome = _apply(target, back.after, dry_run=dry_run, shows_entry=False)
    outcome = replace(outcome, restored=back.names, kept=back.conflicts, whole=back.whole)
    if dry_run:
        return outcome
    with options.open_own() as registry:
        silent = dict[str, str]()

        def move(source: str) -> None:  # in this order the agents stay what they are
            silent.update(_ask_again(registry, options.settings, target.config.path, source))
            _forget(registry, source)

        backup = write_back(target.config, back, target.shelf, move)
    return replace(outcome, backup=str(backup or ""), silent=silent)


def _apply(target: Target, after: HostConfig, *, dry_run: bool, shows_entry: bool = True) -> ConnectOutcome:
    """`shows_entry`: whether the difference shows the entry as it will be, since it is the gateway's."""
    host = target.config.host
    before, now = (_place_in(config, target.name) for config in (target.config, after))
    return ConnectOutcome(
        host=host.name,
        file=str(target.config.path),
        changed=after.text != target.config.text,
        dry_run=dry_run,
        restart=host.restart,
        difference=tuple(difference(target.config, after, target.name if shows_entry else None)) if dry_run else (),
        lacking=() if hosts.hands_on(host) or target.gateway.url else target.gateway.secret_names,
        former_place=before if now and before != now else "",
    )


def _place_in(config: HostConfig, name: str) -> str:
    """The registry or address that the entry of this name has, without a login; empty: none."""
    entry = fields_of(config.servers.get(name))
    place = registry_of(entry) or entry.get(config.host.address_key)
    try:
        return str(references_only({"at": place})["at"]) if place else ""
    except ValueError:
        return "an address that cannot be read"


def _ask(registry: "LocalRegistry", settings: "Settings", config: Path, *, forgets: bool = False) -> Mapping[str, str]:
    """Takes a config's servers into the registry, as `waygraph ingest` does; gives those that fail, with reasons.

    `forgets`: whether a config none of whose servers answers is no source any more.
    """
    ask = partial(ask_servers, settings)
    with progress_bar("Embedding") as progress:
        how = opening(settings, os.environ, registry=registry.store.place, ask=ask)
        [source] = open_sources(str(config), how)
        parts = source.parts()
        manifest = with_answers(parts, ask)
        if manifest.entries:
            Ingestion(opening=how).take(registry, source, parts, manifest, progress)
        elif forgets:
            _forget(registry, source.name)
    keys = {entry.key for entry in manifest.entries}
    return {fault.key: fault.reason for fault in (*manifest.rejected, *manifest.cut) if fault.key not in {"", *keys}}


def _ask_again(
    registry: "LocalRegistry", settings: "Settings", path: Path, shelf_source: str = ""
) -> Mapping[str, str]:
    """The host's own file, if it is a source, or has back what was taken over from it: it has other servers now, or is
    no source any more. As `_ask`.
    """
    source = str(path.absolute())
    if not registry.store.exists or {source, shelf_source}.isdisjoint(each.name for each in registry.sources()):
        return {}
    try:
        return _ask(registry, settings, path, forgets=True)
    except WaygraphError as error:  # the host has its servers back, whatever becomes of the registry
        return {source: str(error)}


def _forget(registry: "LocalRegistry", source: str) -> None:
    if registry.store.exists:
        with suppress(UnknownName):  # it was never taken in
            registry.operator.forget(source)


def view_outcome(outcome: ConnectOutcome) -> Iterator[Block]:
    columns = "host, file, state, backup, behind the gateway=taken, kept in, put back=restored"
    yield Fields.of(outcome, columns, state=_state)
    if outcome.stays:
        yield Table(("stays with the host", "reason"), list(outcome.stays.items()))
    if outcome.entry:
        yield Lines(outcome.entry)
    if outcome.difference:
        yield Lines("\n".join(outcome.difference))


def remark(outcome: ConnectOutcome) -> None:
    """What a person has to do, or should know."""
    if outcome.entry:
        note(f"{outcome.host} keeps it in {outcome.file}; --write puts it there")
    if outcome.former_place:
        note(f"{'this would replace' if outcome.dry_run else 'this replaced'} the entry of {outcome.former_place}")
    if outcome.changed and not outcome.dry_run and outcome.restart:
        note(outcome.restart)
    if outcome.dry_run and outcome.taken:
        names = ", ".join(outcome.taken)
        note(f"each of these is asked first, and one that does not answer then stays with {outcome.host}: {names}")
    if outcome.lacking:
        names = ", ".join(outcome.lacking)
        note(f"{outcome.host} hands on no variables of its environment: {names} must be set where it starts programs")
    for name, reason in outcome.silent.items():
        note(f"{name} is not in the registry now: {reason}")
    if outcome.kept:
        note(f"the file has other servers of these names now, which stay: {', '.join(outcome.kept)}")


def _state(outcome: ConnectOutcome) -> str:
    if not outcome.changed:
        return "as it was"
    if outcome.dry_run:
        return "would change"
    return "as it was before the import" if outcome.whole else "written"
