"""A host's servers put behind the gateway, and back.

Each step leaves a state from which the next run goes on, or `put_back` undoes it:

1. the servers are copied to a config of ours; the host's file is as it was;
2. they are asked from there, so that the registry knows their tools and our config as their source;
3. what did not answer is taken out of our config again, and stays with the host;
4. the record of the take is written: what the host's file is now, and what it will be;
5. the host's file is replaced, whole.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from waygraph.ingest.hosts.backup import Shelf, Take, digest, replace_file
from waygraph.ingest.hosts.config import HostConfig
from waygraph.ingest.hosts.hosts import Gateway, Host, entry_of
from waygraph.ingest.manifest.environment import PLAIN, input_variable
from waygraph.ingest.manifest.fields import fields_of, items_of, map_texts
from waygraph.ingest.manifest.own_gateway import is_gateway
from waygraph.ingest.manifest.records import ToolLimit
from waygraph.ingest.sources.formats.mcp_config import OFF, read_entry
from waygraph.ingest.sources.formats.switches import Faulty, Switches
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import name_fault

_PROJECT = re.compile(r"\$\{workspace(?:Folder|Root)\}")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?:\}|:-)")
_INPUT = re.compile(r"\$\{(input:([^${}:]{1,128}))\}")


class Stays(Exception):
    """Why a server stays in its host's own config; it holds no value of the entry."""


def standard(host: Host, name: str, entry: object, beside: Switches, *, project: Path | None = None) -> dict[str, Any]:
    """As `read_entry` has it. Raises Stays. `project`: the folder that the config belongs to, which its entries may
    refer to.
    """
    try:
        server = read_entry(name, entry, beside, bare_variables=host.bare_variables)
    except Faulty as fault:
        raise Stays(str(fault)) from None
    if is_gateway(server.entry):
        raise Stays("it is a gateway itself")
    if server.disabled:
        raise Stays(f"it {OFF}")
    names = [pattern for limit in server.limits for pattern in _names_for_any_server(limit)]
    launch = server.entry | ({"excludeTools": names} if names else {})
    return launch if project is None else _of_project(launch, project)


def _names_for_any_server(limit: ToolLimit) -> list[str]:
    """The tools that a host keeps from its model whichever server has them. Raises Stays for a limit of one server."""
    names = [pattern for pattern, is_shown in limit.rules if not is_shown]
    is_open = limit.others or ("*", True) in limit.rules
    if not is_open or (names and not limit.server) or any(limit.server in name for name in names):
        raise Stays(f"{limit.field} keeps tools of it from this host's model; take that out first, to have all of them")
    return names


def variables(entry: object) -> Iterator[str]:
    """Names of the variables of the environment that an entry refers to, in the standard form."""
    for text in _texts(entry):
        yield from (match[1] for match in _REFERENCE.finditer(text) if match[1] not in PLAIN)


def asked_inputs(entry: object) -> Iterator[tuple[str, str]]:
    """What an entry asks a person for: the variable that stands for it here, and the host's own reference."""
    for text in _texts(entry):
        yield from ((input_variable(match[2]), f"${{{match[1]}}}") for match in _INPUT.finditer(text))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in (*fields_of(value).values(), *items_of(value)):
        yield from _texts(part)


def _of_project(entry: Mapping[str, Any], project: Path) -> dict[str, Any]:
    """The same from anywhere: its folder and files by their whole path."""
    launch = dict(map_texts(entry, lambda text: _PROJECT.sub(lambda _: str(project), text)))
    if launch.get("command"):
        launch["cwd"] = str(project / str(launch.get("cwd") or ""))
    if launch.get("envFile"):
        launch["envFile"] = str(project / str(launch["envFile"]))
    return launch


type AskServers = Callable[[Path], Mapping[str, str]]
"""Asks the servers of a config and takes them into the registry: those that failed, each with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host's file, the gateway that it shall have under `name`, and where its servers are kept."""

    config: HostConfig
    gateway: Gateway
    name: str
    shelf: Shelf
    project: Path | None = None
    """The folder of the project that the file belongs to."""
    folder: str = ""
    """The folder whose own servers in a user's file are meant too; empty: only those for all folders."""
    stays: Mapping[str, str] = field(default_factory=dict)
    """Servers that did not answer before, or that a person left there, each with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a host's file has to take over, in the standard form, and what stays there, each with its reason.

    `places`: as of a Take.
    """

    servers: Mapping[str, Any] = field(repr=False)
    stays: Mapping[str, str]
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What became of it. `after`: the host's file; `backup`: of what it was."""

    names: tuple[str, ...]
    stays: Mapping[str, str]
    after: HostConfig = field(repr=False)
    backup: Path | None = None


def offer_of(target: Target) -> Offer:
    """Raises SourceError for a file that cannot be read."""
    servers: dict[str, Any] = {}
    stays: dict[str, str] = {}
    places = _of_folder(target)
    everywhere = {key: entry for key, entry in target.config.servers.items() if key != target.name}
    own = target.config.servers_of(target.folder) if places else {}
    switches, own_switches = target.config.switches(), target.config.switches(target.folder)
    repeated_names = target.config.repeated_names(target.folder) if places else ()
    unclear = {*target.config.repeated_names(), *(key for key, (_, name) in places.items() if name in repeated_names)}
    for key, entry in {**everywhere, **{key: own[name] for key, (_, name) in places.items()}}.items():
        project = Path(target.folder) if key in places else target.project
        if fault := name_fault(key):
            stays[key] = f"the gateway cannot call it so: {fault}"
            continue
        if key in target.stays:
            stays[key] = target.stays[key]
            continue
        if key in unclear:
            stays[key] = "the file has more than one of this name: leave one there"
            continue
        try:
            name, beside = (places[key][1], own_switches) if key in places else (key, switches)
            servers[key] = standard(target.config.host, name, entry, beside, project=project)
        except Stays as why:
            stays[key] = str(why)
    return Offer(servers=servers, stays=stays, places={key: places[key] for key in servers if key in places})


def _of_folder(target: Target) -> dict[str, tuple[str, str]]:
    """The folder's own servers, each under a key that no other has: its folder's name before it, or all of its path.

    One that was taken before, in a take that did not come about perhaps, has the key that it had then.
    """
    if not target.folder:
        return {}
    takes = target.shelf.takes()
    former_keys = {place: key for take in takes for key, place in take.places.items()}
    others = {*target.config.servers, *(key for take in takes for key in take.names)}
    keys: dict[str, tuple[str, str]] = {}
    for name in target.config.servers_of(target.folder):
        if name == target.name:
            continue
        place, short = (target.folder, name), f"{PurePath(target.folder).name}/{name}"
        keys[former_keys.get(place) or (f"{target.folder.strip('/')}/{name}" if short in others else short)] = place
    return keys


def gateway_for(gateway: Gateway, servers: Mapping[str, Any]) -> Gateway:
    """The same, which is given the variables that servers refer to: it starts them, in place of the host."""
    names = [name for entry in servers.values() for name in variables(entry)]
    inputs = {name: reference for entry in servers.values() for name, reference in asked_inputs(entry)}
    return replace(
        gateway,
        env={**gateway.env, **inputs},
        secret_names=tuple(
            dict.fromkeys([*gateway.secret_names, *(name for name in names if name not in gateway.env)])
        ),
    )


def plan_takeover(target: Target, offer: Offer) -> HostConfig:
    """The host's file with the gateway in place of the servers on offer. Raises SourceError, InvalidSetting."""
    entry = entry_of(target.config.host, gateway_for(target.gateway, {**target.shelf.servers(), **offer.servers}))
    own = [offer.places[key][1] for key in offer.servers if key in offer.places]
    without = target.config.without_servers([key for key in offer.servers if key not in offer.places])
    without = without.without_servers(own, target.folder) if own else without
    return without.with_servers({target.name: entry})


def take_over(target: Target, offer: Offer, ask: AskServers) -> Takeover:
    """Raises SourceError if nothing answers or the file was changed meanwhile; StorageFailed."""
    config, shelf = target.config, target.shelf
    plan_takeover(target, offer)  # what cannot be written is refused before anything is asked
    current_servers, takes = _in_force(config, shelf)
    inputs = target.config.others.get("inputs")
    shelf.keep_servers({**current_servers, **offer.servers}, inputs)
    failures = {key: reason for key, reason in ask(shelf.config).items() if key in offer.servers}
    servers = {key: entry for key, entry in offer.servers.items() if key not in failures}
    if current_servers or servers:
        shelf.keep_servers({**current_servers, **servers}, inputs)
    else:
        shelf.clear()
    if not servers:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in failures.items())
        raise SourceError(str(config.path), f"no server of it answers, so none is taken over: {reasons}")
    after = plan_takeover(target, replace(offer, servers=servers))
    original, content = (config.text or "").encode(), (after.text or "").encode()
    take = Take(
        names=tuple(servers),
        before=digest(original),
        after=digest(content),
        original=original,
        places={key: offer.places[key] for key in servers if key in offer.places},
    )
    shelf.keep_takes(config.path, [*takes, take])
    backup = replace_file(config, after)
    return Takeover(names=take.names, stays={**offer.stays, **failures}, after=after, backup=backup)


def _in_force(config: HostConfig, shelf: Shelf) -> tuple[dict[str, Any], list[Take]]:
    """The servers that are behind the gateway by now, and their takes: one that did not come about is left out."""
    takes = shelf.takes()
    while takes and takes[-1].before == digest((config.text or "").encode()):
        takes.pop()
    names = {name for take in takes for name in take.names}
    return {key: entry for key, entry in shelf.servers().items() if key in names}, takes


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """`whole`: the file is as it was before, to the byte; else the servers were put beside what it has now.

    `kept`: names that the file has meanwhile given to others, which stay.
    """

    names: tuple[str, ...]
    whole: bool
    conflicts: tuple[str, ...]
    after: HostConfig = field(repr=False)


def put_back(config: HostConfig, name: str, shelf: Shelf) -> PutBack:
    """What the host's file will be; nothing is written. Raises SourceError if nothing was taken over from it."""
    if not (takes := shelf.takes()) and not shelf.config.exists():
        raise SourceError(str(config.path), "nothing was taken over from it")
    whole, conflicts, now = True, list[str](), config
    for take in reversed(takes):
        content = (now.text or "").encode()
        if digest(content) == take.after:
            now = replace(now, text=take.original.decode())
        elif digest(content) != take.before:
            now, others = _beside(now, take, name)
            whole, conflicts = False, [*conflicts, *others]
    names = tuple(dict.fromkeys(key for take in takes for key in take.names))
    names = tuple(name for name in names if name not in conflicts)
    return PutBack(names=names, whole=whole, conflicts=tuple(conflicts), after=now)


def _beside(config: HostConfig, take: Take, name: str) -> tuple[HostConfig, list[str]]:
    """The gateway out, and each server back whose name is free."""
    original, now = replace(config, text=take.original.decode()), config.without_servers([name])
    if name in original.servers:
        now = now.with_servers({name: original.servers[name]})
    conflicts = list[str]()
    for key in take.names:
        folder, server_name = take.place_of(key)
        entry, there = original.servers_of(folder)[server_name], now.servers_of(folder)
        if server_name not in there:
            now = now.with_servers({server_name: entry}, folder)
        elif there[server_name] != entry:
            conflicts.append(key)
    return now, conflicts


def write_back(config: HostConfig, back: PutBack, shelf: Shelf, forget: Callable[[str], None]) -> Path | None:
    """The host's file first, then the registry, then our copies; gives the backup.

    Raises SourceError if the file was changed meanwhile, StorageFailed.
    """
    backup = replace_file(config, back.after) if back.after.text != config.text else None
    forget(str(shelf.config))
    shelf.clear()
    return backup
