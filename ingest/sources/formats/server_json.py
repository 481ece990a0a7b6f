"""One `server.json` of the MCP registry, as of 2025-12-11.

A server says how it is run (`packages`) and where it runs (`remotes`), with inputs: arguments, variables and headers
whose value is given, has a default or is asked for. In what is kept of it an input that is asked for, or is a secret,
is a reference.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.sources.formats.configured_server import launch_of, read_server
from waygraph.ingest.sources.formats.old_forms import Fields
from waygraph.ingest.sources.formats.switches import Faulty
from waygraph.registry.http.addresses import split_url

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
    value = of.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


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
    if (remote := next((remote for remote in remotes if _is_elsewhere(remote, is_reachable)), None)) is not None:
        return _address(remote)
    return _as_told(packages[0]) if packages else None


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


def _is_elsewhere(remote: Fields, is_reachable: Callable[[str], bool]) -> bool:
    """An address of the machine or network of whoever wrote it says nothing here."""
    parts = split_url(text(remote, "url"))
    return bool(parts and parts.hostname and is_reachable(parts.hostname))


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
        path = urlsplit(text(remote, "url")).path
    except ValueError:
        path = ""
    return "sse" if path.rstrip("/").endswith("/sse") else "http"


def _command(package: Fields) -> dict[str, object]:
    runner = _runner(package)
    variables = [name for variable in objects(package, "environmentVariables") if (name := text(variable, "name"))]
    args = [
        *_RUNNER_ARGUMENTS.get(runner, ()),
        *_arguments(objects(package, "runtimeArguments")),
        *([part for name in variables for part in ("-e", name)] if runner == "docker" else []),
        _pin_version(package, runner),
        *_arguments(objects(package, "packageArguments")),
    ]
    env = {name: f"${{{name}}}" for name in variables}
    return {"command": runner, "args": args, **({"env": env} if env else {})}


def _runner(package: Fields) -> str:
    """The program that runs it; empty if none is known, or it has no name."""
    runner = _RUNNERS.get(text(package, "registryType"), "")
    hint = text(package, "runtimeHint")
    return (hint if hint in _RUNNER_ARGUMENTS else runner) if runner and text(package, "identifier") else ""


def _pin_version(package: Fields, runner: str) -> str:
    identifier, version, mark = text(package, "identifier"), text(package, "version"), _VERSION_MARKS[runner]
    has_one = mark in identifier.rpartition("/")[2]
    return identifier if has_one or not version else f"{identifier}{mark}{version}"


def _as_told(package: Fields) -> dict[str, object]:
    """Of one that nothing is known to run: what it is."""
    fields = {
        "registryType": text(package, "registryType"),
        "identifier": text(package, "identifier"),
        "version": text(package, "version"),
        "fileSha256": text(package, "fileSha256"),
    }
    return {"package": {name: value for name, value in fields.items() if value}}


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
    variables = field(entry, "variables")
    known_variables = variables if isinstance(variables, Mapping) else {}

    def reference_of(match: re.Match[str]) -> str:
        if not isinstance(inner := known_variables.get(match[1]), Mapping):
            return _reference(match[1]) if label == "url" else match[0]
        value = text(inner, "value", "default")
        return _reference(match[1]) if field(inner, "isSecret") or not value else value

    return _PLACEHOLDER.sub(reference_of, template)


def _reference(label: str, end: str = "") -> str:
    """`${X_Api_Key}` for the header `X-Api-Key`."""
    return "${" + ("_".join(re.findall(r"\w+", label)) or "value") + end + "}"
