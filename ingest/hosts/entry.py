"""The entry by which a host starts or reaches the gateway."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from waygraph.ingest.hosts.hosts import Host
from waygraph.registry.model.errors import InvalidSetting, SourceError
from waygraph.registry.model.files import as_written
from waygraph.registry.model.settings import PREFIX, Settings

if TYPE_CHECKING:
    from waygraph.ingest.hosts.config import HostConfig

NAME = "waygraph"
"""What the gateway is called in a host's config."""
KEY = f"{PREFIX}API_KEY"
_PLACES = ("XDG_DATA_HOME", "XDG_CACHE_HOME")
_MODULE = "waygraph.api.cli.app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A command to start, or with `url` a service's endpoint to reach.

    `env`: plain values that the command needs. `handed_on`: names of variables that hold secrets; a host that knows
    references gives their values from its own environment. `keyed`: whether the endpoint is shown WAYGRAPH_API_KEY.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    handed_on: tuple[str, ...] = ()
    url: str = ""
    keyed: bool = False


def entry_of(host: Host, gateway: Gateway) -> dict[str, Any]:
    """As the host's config has it. Raises InvalidSetting for an address that the host's config cannot reach."""
    if gateway.url:
        return _address(host, gateway)
    entry: dict[str, Any] = {"type": "stdio"} if host.typed else {}
    entry |= {"command": gateway.command, "args": list(gateway.args)}
    env = dict(gateway.env)
    if host.reference:
        env |= {name: host.reference.format(name) for name in gateway.handed_on}
    if env:
        entry["env"] = env
    if host.id == "codex" and gateway.handed_on:
        entry["env_vars"] = list(gateway.handed_on)
    return entry


def hands_on(host: Host) -> bool:
    """Whether the host's config can give a variable of its own environment to a server."""
    return bool(host.reference) or host.id == "codex"


def _address(host: Host, gateway: Gateway) -> dict[str, Any]:
    if not host.address_key:
        raise InvalidSetting(
            f"{host.name}'s config starts commands only: leave --url away, for a bridge to the service"
        )
    entry: dict[str, Any] = {"type": "http"} if host.typed else {}
    entry[host.address_key] = gateway.url
    if not gateway.keyed:
        return entry
    if host.id == "codex":
        return {**entry, "bearer_token_env_var": KEY}
    if not host.reference:
        raise InvalidSetting(
            f"{host.name}'s config knows no references, and a key is not written into it: leave --url away, for a "
            "bridge to the service"
        )
    return {**entry, "headers": {"Authorization": f"Bearer {host.reference.format(KEY)}"}}


def is_gateway(entry: object) -> bool:
    """Whether an entry starts a gateway of ours: it is not taken over by itself."""
    if not isinstance(entry, Mapping):
        return False
    command, args = entry.get("command"), entry.get("args")
    told = [str(part) for part in (command, *(args if isinstance(args, list) else ()))]
    program = PurePath(told[0].replace("\\", "/")).name.casefold().removesuffix(".exe")
    ours = program == NAME or _MODULE in told or NAME in told[1:2]
    return ours and "mcp" in told[1:]


def check_is_ours(config: "HostConfig", name: str) -> None:
    """Raises SourceError if the config has a server under the gateway's name that is no gateway of ours."""
    entry = config.servers.get(name)
    if entry is None or is_gateway(entry) or _reaches_one(config.host, entry):
        return
    raise SourceError(
        str(config.path),
        f"has a server named {name!r} that is no gateway of ours: --name gives the gateway another name",
    )


def _reaches_one(host: Host, entry: object) -> bool:
    """By its address, as far as that tells."""
    address = entry.get(host.address_key) if isinstance(entry, Mapping) else None
    return isinstance(address, str) and address.rstrip("/").endswith("/mcp")


# -- of this installation --------------------------------------------------------------------------


def start_entry(
    program: Sequence[str],
    location: str | Path,
    environ: Mapping[str, str],
    *,
    embedder: str = "",
    namespace: str = "",
) -> Gateway:
    """`waygraph mcp` on this registry. `program`: what starts Waygraph; `location`: absolute, or a URL.

    Settings that the environment gives go with it: a host starts it with an environment of its own.
    """
    args = [*program[1:], "--registry", str(location), *(["--embedder", embedder] if embedder else []), "mcp"]
    plain, secret = _told_settings(environ)
    return Gateway(
        command=program[0],
        args=(*args, *(["--namespace", namespace] if namespace else [])),
        env=plain,
        handed_on=tuple(secret),
    )


def service_entry(place: str, environ: Mapping[str, str], *, namespace: str = "") -> Gateway:
    """The `/mcp` of a service. Raises InvalidSetting for a place that is none."""
    from waygraph.registry.storage.location import ServiceAddress

    url = ServiceAddress.parse(place).url
    return Gateway(url=f"{url}/{namespace}/mcp" if namespace else f"{url}/mcp", keyed=bool(environ.get(KEY)))


def program_of(executable: str) -> list[str]:
    """What starts this installation: the command beside its Python, else the module."""
    name = "waygraph.exe" if os.name == "nt" else "waygraph"
    beside = Path(executable).parent / name
    return [str(beside)] if beside.is_file() else [executable, "-m", _MODULE]


def _told_settings(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Plain ones with their values, paths as they are from here; secret ones by name."""
    secret = {f"{PREFIX}{each.name.upper()}" for each in fields(Settings) if not each.repr}
    known = {f"{PREFIX}{each.name.upper()}" for each in fields(Settings)} | set(_PLACES)
    told = {name: value for name, value in sorted(environ.items()) if name in known and value}
    plain = {name: _from_here(name, value) for name, value in told.items() if name not in secret}
    return plain, [name for name in told if name in secret]


def _from_here(name: str, value: str) -> str:
    """A host starts its commands in a folder of its own. Raises InvalidSetting."""
    return str(as_written(value).absolute()) if name.endswith(("_DIR", "_FILE")) else value
