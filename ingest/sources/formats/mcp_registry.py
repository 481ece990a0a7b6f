"""Entries of the MCP registry: `server.json` alone, an answer of its API, or a list of entries.

Each gives an agent without tools, since an entry lists none. Of each name only the latest version counts.

One `server.json` of the MCP registry, as of 2025-12-11.

A server says how it is run (`packages`) and where it runs (`remotes`), with inputs: arguments, variables and headers
whose value is given, has a default or is asked for. In what is kept of it an input that is asked for, or is a secret,
is a reference.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal

from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.fields import fields_of, items_of, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, HttpLaunch, Intake, ServerEntry, shape_of
from waygraph.ingest.sources.formats.configured_server import form_of_url, launch_of, read_server
from waygraph.ingest.sources.formats.old_forms import OFFICIAL, Fields, upgrade_entry
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.registry.http.addresses import is_loopback, is_public, split_url
from waygraph.registry.model.identity import name_fault

_RUNNERS = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
_RUNNER_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "npx": ("-y",),
    "uvx": (),
    "docker": ("run", "-i", "--rm"),
    "dnx": ("--yes",),
}
_VERSION_MARKS = {"npx": "@", "uvx": "@", "docker": ":", "dnx": "@"}
_UNKNOWN = "unknown"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)\}")


def field(of: Fields, *names: str) -> Any:
    """The first of the names that is there."""
    return next((value for name in names if (value := of.get(name)) is not None), None)


def text(of: Fields, *names: str) -> str:
    """Empty for what is no string."""
    value = field(of, *names)
    return value if isinstance(value, str) else ""


def objects(of: Fields, name: str) -> list[Fields]:
    """What of a list are objects."""
    return [item for item in items_of(of.get(name)) if isinstance(item, Mapping)]


def types_of(server: Fields) -> Iterator[str]:
    """How it can be had: npm, pypi, oci …, and remote."""
    for package in objects(server, "packages"):
        if (kind := text(package, "registryType")) and kind != _UNKNOWN:
            yield kind
    if objects(server, "remotes"):
        yield "remote"


def transport_of(server: Fields, is_reachable: Callable[[str], bool]) -> dict[str, object] | None:
    """How it is reached or started, with references.

    An open remote counts before a package that can be run, that before another remote.
    `is_reachable` tells of a remote's host whether it may be asked.
    """
    remotes, packages = objects(server, "remotes"), objects(server, "packages")
    if (remote := next((remote for remote in remotes if _is_open(remote, is_reachable)), None)) is not None:
        return _address(remote)
    if (package := next(filter(_runner, packages), None)) is not None:
        return _command(package)
    for remote in remotes:  # an address of the machine or network of whoever wrote it says nothing here
        parts = split_url(text(remote, "url"))
        if parts and parts.hostname and is_reachable(parts.hostname):
            return _address(remote)
    if not packages:
        return None
    # Of one that nothing is known to run: what it is.
    names = ("registryType", "identifier", "version", "fileSha256")
    return {"package": {name: value for name in names if (value := text(packages[0], name))}}


def launch_of_remote(remote: Fields, is_reachable: Callable[[str], bool], environ: Mapping[str, str]) -> HttpLaunch:
    """With what is asked for taken from `environ`. Raises Faulty, which names what is missing there."""
    launch = launch_of(read_server(_address(remote)), Scope(surroundings=Surroundings(environ=environ)))
    parts = split_url(launch.url) if isinstance(launch, HttpLaunch) else None
    if not isinstance(launch, HttpLaunch) or parts is None or not is_reachable(parts.hostname or ""):
        raise Faulty("its address is of the machine or network of whoever wrote it")
    return launch


def _is_open(remote: Fields, is_reachable: Callable[[str], bool]) -> bool:
    """Whether nothing that it needs is missing, and its host may be asked."""
    try:
        launch_of_remote(remote, is_reachable, {})
    except Faulty:
        return False
    return True


# -- what is kept ----------------------------------------------------------------------------------


def _address(remote: Fields) -> dict[str, object]:
    url = _with_references({"value": text(remote, "url"), "variables": field(remote, "variables")}, "url")
    headers = {
        name: _with_references(header, name, "" if field(header, "isRequired") else ":-")
        for header in objects(remote, "headers")
        if (name := text(header, "name"))
    }
    return {"type": _form(remote), "url": url, **({"headers": headers} if headers else {})}


def _form(remote: Fields) -> Literal["http", "sse"]:
    if kind := text(remote, "type"):
        return "sse" if kind == "sse" else "http"
    try:
        return form_of_url(text(remote, "url"))
    except Faulty:
        return "http"


def _command(package: Fields) -> dict[str, object]:
    runner = _runner(package)
    identifier, version, mark = text(package, "identifier"), text(package, "version"), _VERSION_MARKS[runner]
    variables = [name for variable in objects(package, "environmentVariables") if (name := text(variable, "name"))]
    args = [
        *_RUNNER_ARGUMENTS.get(runner, ()),
        *_arguments(objects(package, "runtimeArguments")),
        *([part for name in variables for part in ("-e", name)] if runner == "docker" else []),
        identifier if mark in identifier.rpartition("/")[2] or not version else f"{identifier}{mark}{version}",
        *_arguments(objects(package, "packageArguments")),
    ]
    env = {name: f"${{{name}}}" for name in variables}
    return {"command": runner, "args": args, **({"env": env} if env else {})}


def _runner(package: Fields) -> str:
    """The program that runs it; empty if none is known, or it has no name."""
    runner = _RUNNERS.get(text(package, "registryType"), "")
    hint = text(package, "runtimeHint")
    return (hint if hint in _RUNNER_ARGUMENTS else runner) if runner and text(package, "identifier") else ""


def _arguments(inputs: Sequence[Fields]) -> Iterator[str]:
    """Those that are given, have a default or are required."""
    for argument in inputs:
        name = text(argument, "name") if field(argument, "type") != "positional" else ""
        if field(argument, "value", "default") is None and not field(argument, "isRequired"):
            continue
        value = _with_references(argument, name or text(argument, "valueHint") or "argument")
        # The older form has the flag in the value as well.
        if name and not value.startswith(name):
            yield name
        if value:
            yield value


# -- inputs ----------------------------------------------------------------------------------------


def _with_references(entry: Fields, label: str, end: str = "") -> str:
    """The value or default, with references for what is asked for and for secrets. `end`: of the reference to itself,
    where it may be missing.
    """
    if not isinstance(template := field(entry, "value", "default"), str) or field(entry, "isSecret"):
        return _reference(label, end)
    known_variables = fields_of(field(entry, "variables"))

    def reference_of(match: re.Match[str]) -> str:
        if not isinstance(inner := known_variables.get(match[1]), Mapping):
            return _reference(match[1]) if label == "url" else match[0]
        value = text(inner, "value", "default")
        return _reference(match[1]) if field(inner, "isSecret") or not value else value

    return _PLACEHOLDER.sub(reference_of, template)


def _reference(label: str, end: str = "") -> str:
    """`${X_Api_Key}` for the header `X-Api-Key`."""
    return "${" + ("_".join(re.findall(r"\w+", label)) or "value") + end + "}"


SHAPE = '{"servers": [{"server": {"name": …, "packages": […], "remotes": […]}}]}, a list of such, or one server.json'
DEPRECATED = "deprecated"
_NAMES_HERE = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
"""Ends of names that only this machine or its network knows."""
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_OTHERS_FIELDS = {"tools", "agents", "skills"}


def fits(document: Any) -> bool:
    if isinstance(document, list):
        return mostly(document, _looks_like_an_entry)
    if not isinstance(document, Mapping):
        return False
    if isinstance(entries := document.get("servers"), list):
        return any(map(_looks_like_an_entry, entries)) or (
            not entries and isinstance(document.get("metadata"), Mapping)
        )
    return _looks_like_an_entry(document)


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """An agent for each name. What the registry has deleted is told to the intake as gone."""
    is_reachable = _reachable_from(where)
    for version in _latest(_read_list(document, intake), intake):
        if version.status == "deleted":
            intake.gone.append(version.name)
        else:
            _tell_faulty_parts(version, intake)
            yield _record(version, is_reachable)


def servers(document: Any, where: str, intake: Intake) -> Iterator[ServerEntry]:
    """Those with a remote that may be asked, and needs nothing that is missing.

    One by itself takes what it asks for from the environment, and what is missing is told; a list may hold thousands,
    which nobody chose.
    """
    is_reachable, is_one = _reachable_from(where), _is_one(document)
    environ = intake.surroundings.environ if is_one else {}
    for version in _latest(_read_list(document, intake), intake):
        if version.status == "deleted" or name_fault(version.name):
            continue
        faults = list[str]()
        for remote in objects(version.server, "remotes"):
            try:
                launch = launch_of_remote(remote, is_reachable, environ)
            except Faulty as fault:
                faults.append(str(fault))
                continue
            # A name may lead anywhere, which is known only where it is looked up.
            launch = replace(launch, public=not _is_here(where))
            yield ServerEntry(key=version.name, launch=launch, record=_record(version, is_reachable))
            break
        else:
            if is_one and faults:
                intake.note_cut(version.pointer, f"not asked: {'; '.join(dict.fromkeys(faults))}")


def is_superseded(entry: object) -> bool:
    """Whether an entry says of itself that it is not the latest version."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("server", entry), Mapping):
        return False
    return upgrade_entry(entry)["_meta"][OFFICIAL]["isLatest"] is False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """One version of a server. `official`: what the registry says of it, as `upgrade_entry` has it."""

    pointer: str
    server: Fields
    official: Fields

    @property
    def name(self) -> str:
        return str(self.server["name"])

    @property
    def status(self) -> str:
        return str(self.official["status"])


def _looks_like_an_entry(entry: object) -> bool:
    if not isinstance(entry, Mapping) or _OTHERS_FIELDS & set(entry):
        return False
    if isinstance(entry.get("server"), Mapping):
        return "name" in entry["server"]
    has_parts = any(isinstance(entry.get(name), list) for name in ("packages", "remotes"))
    schema = entry.get("$schema")
    of_registry = isinstance(schema, str) and "modelcontextprotocol" in schema
    return "name" in entry and (has_parts or of_registry or "version_detail" in entry)


def _is_one(document: Any) -> bool:
    return isinstance(document, Mapping) and not isinstance(document.get("servers"), list)


def _raw_entries(document: Any) -> Iterator[tuple[str, object]]:
    """Each with its pointer."""
    if _is_one(document):
        yield "", document
    elif isinstance(document, Mapping):
        yield from ((pointer("servers", number), entry) for number, entry in enumerate(document["servers"]))
    else:
        yield from ((pointer(number), entry) for number, entry in enumerate(document))


def _read_list(document: Any, intake: Intake) -> Iterator[_Version]:
    for place, entry in _raw_entries(document):
        server = entry.get("server", entry) if isinstance(entry, Mapping) else entry
        if not isinstance(entry, Mapping) or not isinstance(server, Mapping):
            intake.reject_agent(place, f"expected an entry of the MCP registry, found {shape_of(server)}")
        elif _is_empty(entry):
            # It can be of no agent: what is not listed is not held back for it.
            intake.reject(place, "an empty entry: all its fields are empty")
        elif fault := name_fault(server.get("name")):
            intake.reject_agent(place, f"name: {fault}")
        else:
            current = upgrade_entry(entry)
            yield _Version(pointer=place, server=current["server"], official=current["_meta"][OFFICIAL])


def _is_empty(entry: object) -> bool:
    """Whether nothing at all is said in it, however deep."""
    rest = [entry]
    while rest:
        if isinstance(value := rest.pop(), (Mapping, list)):
            rest += value.values() if isinstance(value, Mapping) else value
        elif value:
            return False
    return True


def _latest(candidates: Iterable[_Version], intake: Intake) -> Iterator[_Version]:
    """Of each name the version that says so of itself, else the last published; in the order of the names' first."""
    best: dict[str, _Version] = {}
    versions = set[tuple[str, str]]()
    for version in candidates:
        if (key := (version.name, version.server["version"])) in versions:
            intake.reject(version.pointer, f"{version.name!r} is listed before in this version; the first is kept")
            continue
        versions.add(key)
        if (former := best.get(version.name)) is None or _age(version) > _age(former):
            best[version.name] = version
    yield from best.values()


def _age(version: _Version) -> tuple[bool, bool, float]:
    is_latest = version.official["isLatest"]
    return is_latest is True, is_latest is not False, _moment(version.official["publishedAt"])


def _moment(at: str) -> float:
    """Of RFC 3339, whatever its offset; what is none is before all others."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return -inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _tell_faulty_parts(version: _Version, intake: Intake) -> None:
    """A package or remote that is none costs only itself."""
    for name in ("packages", "remotes"):
        if (part := version.server.get(name)) is not None and not isinstance(part, list):
            intake.reject(f"{version.pointer}{pointer(name)}", f"expected a list, found {shape_of(part)}")
        for number, item in enumerate(part if isinstance(part, list) else ()):
            if not isinstance(item, Mapping):
                place = f"{version.pointer}{pointer(name, number)}"
                intake.reject(place, f"expected an object, found {shape_of(item)}")


def _record(version: _Version, is_reachable: Callable[[str], bool]) -> AgentRecord:
    title = text(version.server, "title")
    kinds = {kind for kind in types_of(version.server) if not name_fault(kind)}
    return AgentRecord(
        pointer=version.pointer,
        key=version.name,
        name="" if name_fault(title) else title,
        description=version.server.get("description"),
        version=version.server["version"],
        transport=transport_of(version.server, is_reachable),
        tags=tuple(kinds | ({DEPRECATED} if version.status == "deprecated" else set())),
    )


def _reachable_from(where: str) -> Callable[[str], bool]:
    """A list that came from elsewhere must not have this machine or its network asked: only hosts of the internet.

    One from an address of this machine may name this machine.
    """
    from_here = _is_here(where)
    return lambda host: from_here or _is_elsewhere(host)


def _is_here(where: str) -> bool:
    parts = split_url(where) if "://" in where else None
    return parts is not None and is_loopback(parts.hostname or "")


def _is_elsewhere(host: str) -> bool:
    """Of an address or a name; not looked up. A name that ends in a number is another spelling of an address."""
    name = host.casefold().rstrip(".")
    if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
        return is_public(name)
    return "." in name and not name.endswith(_NAMES_HERE)
