"""One `server.json` of the MCP registry, as of 2025-12-11 and in the older words (`version_detail`, `registry_name`).

A server says how it is run (`packages`) and where it runs (`remotes`), with inputs: arguments, variables and headers
whose value is given, has a default or is asked for. In what is kept of it an input that is asked for, or is a secret,
is a reference.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.registry.http.addresses import split_url

_RUNNERS = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
_RUNNER_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "npx": ("-y",),
    "uvx": (),
    "docker": ("run", "-i", "--rm"),
    "dnx": ("--yes",),
}
_VERSION_MARKS = {"npx": "@", "uvx": "@", "docker": ":", "dnx": "@"}
_OLDER_TYPES = {"docker": "oci"}
_UNKNOWN = "unknown"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)\}")

Fields = Mapping[str, Any]


def field(of: Fields, *names: str) -> Any:
    """The first of the names that is there, each also in the older spelling: `isLatest`, `is_latest`."""
    for name in names:
        value = of.get(name)
        if value is None:
            value = of.get(_older_spelling(name))
        if value is not None:
            return value
    return None


@cache
def _older_spelling(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)


def text(of: Fields, *names: str) -> str:
    """Empty for what is no string."""
    value = field(of, *names)
    return value if isinstance(value, str) else ""


def objects(of: Fields, *names: str) -> list[Fields]:
    """What of a list are objects."""
    value = field(of, *names)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def types_of(server: Fields) -> Iterator[str]:
    """How it can be had: npm, pypi, oci …, and remote."""
    for package in objects(server, "packages"):
        kind = _registry_type(package)
        if kind and kind != _UNKNOWN:
            yield kind
    if objects(server, "remotes"):
        yield "remote"


def transport_of(server: Fields, is_reachable: Callable[[str], bool]) -> dict[str, object] | None:
    """How it is reached or started, with references.

    An open remote counts before a package that can be run, that before another remote.
    `is_reachable` tells of a remote's host whether it may be asked.
    """
    remotes, packages = objects(server, "remotes"), objects(server, "packages")
    is_open = (remote for remote in remotes if open_launch(remote, is_reachable))
    if (remote := next(is_open, None)) is not None:
        return _address(remote)
    if (package := next(filter(_runner, packages), None)) is not None:
        return _command(package)
    elsewhere = (remote for remote in remotes if _is_elsewhere(remote, is_reachable))
    if (remote := next(elsewhere, None)) is not None:
        return _address(remote)
    return _as_told(packages[0]) if packages else None


def open_launch(remote: Fields, is_reachable: Callable[[str], bool]) -> HttpLaunch | None:
    """None if something that it needs is neither given nor has a default, or its host may not be asked."""
    url = _fill_value({"value": text(remote, "url"), "variables": field(remote, "variables")})
    parts = split_url(url) if url else None
    if not url or parts is None or parts.scheme not in {"http", "https"} or _PLACEHOLDER.search(url):
        return None
    if not parts.hostname or not is_reachable(parts.hostname):
        return None
    headers = _open_headers(objects(remote, "headers"))
    if headers is None:
        return None
    return HttpLaunch(url=url, headers=headers, form=_form(remote), confidential=_secrets_in(remote))


def _secrets_in(remote: Fields) -> frozenset[str]:
    """Of its address; those of its headers stand in the headers."""
    variables = field(remote, "variables")
    inputs = variables.values() if isinstance(variables, Mapping) else ()
    told = {text(said, "value", "default") for said in inputs if isinstance(said, Mapping) and field(said, "isSecret")}
    return frozenset(told - {""})


def _open_headers(inputs: Sequence[Fields]) -> dict[str, str] | None:
    headers = {}
    for said in inputs:
        name, value = text(said, "name"), _fill_value(said)
        if name and value is not None:
            headers[name] = value
        elif field(said, "isRequired"):
            return None
    return headers


def _is_elsewhere(remote: Fields, is_reachable: Callable[[str], bool]) -> bool:
    """An address of the machine or network of whoever wrote it says nothing here."""
    parts = split_url(text(remote, "url"))
    return bool(parts and parts.hostname and is_reachable(parts.hostname))


# -- what is kept ----------------------------------------------------------------------------------


def _address(remote: Fields) -> dict[str, object]:
    url = _with_references({"value": text(remote, "url"), "variables": field(remote, "variables")}, "url")
    headers = {
        name: _with_references(said, name) for said in objects(remote, "headers") if (name := text(said, "name"))
    }
    return {"type": _form(remote), "url": url, **({"headers": headers} if headers else {})}


def _form(remote: Fields) -> Literal["http", "sse"]:
    said = text(remote, "type", "transportType")
    if said:
        return "sse" if said == "sse" else "http"
    try:
        path = urlsplit(text(remote, "url")).path
    except ValueError:
        path = ""
    return "sse" if path.rstrip("/").endswith("/sse") else "http"


def _command(package: Fields) -> dict[str, object]:
    runner = _runner(package)
    variables = [name for said in objects(package, "environmentVariables") if (name := text(said, "name"))]
    passed = [part for name in variables for part in ("-e", name)] if runner == "docker" else []
    args = [
        *_RUNNER_ARGUMENTS.get(runner, ()),
        *_arguments(objects(package, "runtimeArguments")),
        *passed,
        _pin_version(package, runner),
        *_arguments(objects(package, "packageArguments")),
    ]
    env = {name: f"${{{name}}}" for name in variables}
    return {"command": runner, "args": args, **({"env": env} if env else {})}


def _runner(package: Fields) -> str:
    """The program that runs it; empty if none is known, or it has no name."""
    runner = _RUNNERS.get(_registry_type(package), "")
    hint = text(package, "runtimeHint")
    return (hint if hint in _RUNNER_ARGUMENTS else runner) if runner and _identifier(package) else ""


def _pin_version(package: Fields, runner: str) -> str:
    identifier, version, mark = _identifier(package), text(package, "version"), _VERSION_MARKS[runner]
    has_one = mark in identifier.rpartition("/")[2]
    return identifier if has_one or not version else f"{identifier}{mark}{version}"


def _as_told(package: Fields) -> dict[str, object]:
    """Of one that nothing is known to run: what it is."""
    told = {
        "registryType": _registry_type(package),
        "identifier": _identifier(package),
        "version": text(package, "version"),
        "fileSha256": text(package, "fileSha256"),
    }
    return {"package": {name: value for name, value in told.items() if value}}


def _registry_type(package: Fields) -> str:
    kind = text(package, "registryType", "registryName")
    return _OLDER_TYPES.get(kind, kind)


def _identifier(package: Fields) -> str:
    return text(package, "identifier", "name")


def _arguments(inputs: Sequence[Fields]) -> Iterator[str]:
    """Those that are given, have a default or are required."""
    for said in inputs:
        name = text(said, "name") if field(said, "type") != "positional" else ""
        if field(said, "value", "default") is None and not field(said, "isRequired"):
            continue
        value = _with_references(said, name or text(said, "valueHint") or "argument")
        # The older form has the flag in the value as well.
        if name and not value.startswith(name):
            yield name
        if value:
            yield value


# -- inputs ----------------------------------------------------------------------------------------


def _with_references(said: Fields, label: str) -> str:
    """The value or default, with references for what is asked for and for secrets."""
    told = field(said, "value", "default")
    if not isinstance(told, str) or field(said, "isSecret"):
        return _reference(label)
    variables = field(said, "variables")
    known = variables if isinstance(variables, Mapping) else {}

    def reference_of(found: re.Match[str]) -> str:
        inner = known.get(found[1])
        if not isinstance(inner, Mapping):
            return _reference(found[1]) if label == "url" else found[0]
        value = text(inner, "value", "default")
        return _reference(found[1]) if field(inner, "isSecret") or not value else value

    return _PLACEHOLDER.sub(reference_of, told)


def _fill_value(said: Fields) -> str | None:
    """The value or default, with the values and defaults of its variables; None if one is missing."""
    told = field(said, "value", "default")
    if not isinstance(told, str):
        return None
    variables = field(said, "variables")
    known = variables if isinstance(variables, Mapping) else {}
    values = {name: text(inner, "value", "default") for name, inner in known.items() if isinstance(inner, Mapping)}
    if any(not values.get(name, "-") for name in _PLACEHOLDER.findall(told)):
        return None
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), told)


def _reference(label: str) -> str:
    return "${" + ("_".join(re.findall(r"\w+", label)) or "value") + "}"
