"""A host's entry in the form that `mcp_config` reads: its server is then asked and started from a file of ours."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.hosts.entry import is_gateway
from waygraph.ingest.hosts.host import Host
from waygraph.ingest.manifest import shape_of
from waygraph.ingest.sources.interpolation import PLAIN, input_variable

_LIMITS = frozenset(
    "alwaysDeny disabledTools disabled_tools enabledTools enabled_tools excludeTools includeTools tools".split()
)
"""Fields by which a host keeps tools of a server from its model."""
_DOLLAR = re.compile(r"\$([A-Za-z_]\w*)")
_PROJECT = re.compile(r"\$\{workspace(?:Folder|Root)\}")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?:\}|:-)")
_INPUT = re.compile(r"\$\{(input:([^${}:]{1,128}))\}")


class Stays(Exception):
    """Why a server stays in its host's own config; it holds no value of the entry."""


def standard(host: Host, entry: object, *, project: Path | None = None) -> dict[str, Any]:
    """Raises Stays. `project`: the folder that the config belongs to, which its entries may refer to."""
    if not isinstance(entry, Mapping):
        raise Stays(f"expected an object, found {shape_of(entry)}")
    if is_gateway(entry):
        raise Stays("it is a gateway itself")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        raise Stays("it is switched off")
    if limit := next((name for name in _LIMITS & set(entry) if entry[name] not in ([], ["*"], None)), None):
        raise Stays(f"{limit} limits its tools in this host; give the limit by a policy, and take the field out first")
    told = _FORMS.get(host.id, _as_it_is)(dict(entry))
    if not told.get("command") and not told.get("url"):
        raise Stays("has neither a command nor an address")
    return told if project is None else _of_project(told, project)


def variables(entry: object) -> Iterator[str]:
    """Names of the variables of the environment that an entry refers to, in the standard form."""
    for text in _texts(entry):
        yield from (found[1] for found in _REFERENCE.finditer(text) if found[1] not in PLAIN)


def asked_inputs(entry: object) -> Iterator[tuple[str, str]]:
    """What an entry asks a person for: the variable that stands for it here, and the host's own reference."""
    for text in _texts(entry):
        yield from ((input_variable(found[2]), f"${{{found[1]}}}") for found in _INPUT.finditer(text))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _each_text(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each_text(part, change) for name, part in value.items()}
    return [_each_text(part, change) for part in value] if isinstance(value, list) else value


def _of_project(entry: dict[str, Any], project: Path) -> dict[str, Any]:
    """The same from anywhere: its folder and files by their whole path."""
    told = dict(_each_text(entry, lambda text: _PROJECT.sub(lambda _: str(project), text)))
    if told.get("command"):
        told["cwd"] = str(project / str(told.get("cwd") or ""))
    if told.get("envFile"):
        told["envFile"] = str(project / str(told["envFile"]))
    return told


# -- the forms of hosts ----------------------------------------------------------------------------


def _as_it_is(entry: dict[str, Any]) -> dict[str, Any]:
    return entry


def _of_windsurf(entry: dict[str, Any]) -> dict[str, Any]:
    address = entry.pop("serverUrl", None)
    return {**entry, "url": address} if address else entry


def _of_gemini(entry: dict[str, Any]) -> dict[str, Any]:
    """`httpUrl` is streamable HTTP, `url` the older form; a variable is written as `$NAME`, too."""
    address = entry.pop("httpUrl", None)
    if address:
        entry |= {"type": "http", "url": address}
    elif entry.get("url") and "type" not in entry:
        entry["type"] = "sse"
    return dict(_each_text(entry, lambda text: _DOLLAR.sub(r"${\1}", text)))


def _of_codex(entry: dict[str, Any]) -> dict[str, Any]:
    """It names variables in fields of their own, and knows no references."""
    env = {**dict(entry.get("env") or {}), **{name: f"${{{name}}}" for name in _names(entry.get("env_vars"))}}
    headers = dict(entry.get("http_headers") or {})
    headers |= {name: f"${{{variable}}}" for name, variable in dict(entry.get("env_http_headers") or {}).items()}
    if bearer := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    told = {name: entry[name] for name in ("command", "args", "cwd", "url") if name in entry}
    return told | ({"headers": headers} if headers else {}) | ({"env": env} if env else {})


def _names(listed: object) -> list[str]:
    """Names, or objects with a name."""
    found = (
        [item.get("name") if isinstance(item, Mapping) else item for item in listed] if isinstance(listed, list) else []
    )
    return [name for name in found if isinstance(name, str)]


def _of_zed(entry: dict[str, Any]) -> dict[str, Any]:
    """Its older entries have an object as `command`; an entry of an extension has none."""
    command = entry.get("command")
    if not isinstance(command, Mapping):
        return entry
    rest = {name: command[name] for name in ("args", "env") if command.get(name)}
    return {**entry, "command": command.get("path"), **rest}


_FORMS = {"codex": _of_codex, "gemini-cli": _of_gemini, "windsurf": _of_windsurf, "zed": _of_zed}
