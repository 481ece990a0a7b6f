"""Hosts of language models whose config is documented: where it lies, how it writes a server, how people call it.

A new host is an entry in `HOSTS`. A host that has no file of its own for a project, no form for an address or no
references has that field empty.
"""

import json
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any, Literal
from urllib.parse import urlsplit

from waygraph.ingest.hosts import edit
from waygraph.ingest.manifest.fields import fields_of, items_of, repeated_names
from waygraph.ingest.manifest.own_gateway import KEY, NAME, is_gateway, registry_of
from waygraph.ingest.manifest.records import Intake
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.parse import parse_file
from waygraph.registry.model.errors import InvalidSetting, SourceError
from waygraph.registry.model.files import as_written
from waygraph.registry.model.installation import address_of_origin
from waygraph.registry.model.settings import PREFIX, Settings

# Where hosts keep their configs, per system.
#
# Only looked at: nothing of what they name is started, and no reference in them is resolved.


_NO_NAME = re.compile(r"[^a-z0-9]+")
_SETTINGS = ("settings.json", "config.toml")
"""Files that are there for other things as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConfig:
    """A config that is there. `names`: of its servers, the disabled ones too, but for the gateways, which are
    Waygraph's own entries. `registries`: those that the gateways name, empty where one names none. `is_only_read`: the
    host's entry belongs elsewhere. `is_of_project`: it lies in the folder of a project, whose author may be anybody.
    `commands`: a line for each server that is not switched off, with its name and how it is started or reached, without
    secrets. `fault`: why it cannot be read.
    """

    host: "Host"
    path: Path
    names: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    is_only_read: bool = False
    is_of_project: bool = False
    commands: tuple[str, ...] = ()
    fault: str = ""

    @property
    def client(self) -> str:
        return self.host.name

    @property
    def servers(self) -> int:
        return len(self.names)

    @property
    def gateways(self) -> int:
        return len(self.registries)

    def reaches(self, place: str) -> bool:
        """Whether a gateway of it is of this registry, as far as that tells. `place`: absolute, or a URL."""
        return any(registry in ("", place) for registry in self.registries)


def known_configs(
    home: Path, environ: Mapping[str, str], platform: str, cwd: Path, *, settings: Settings
) -> list[KnownConfig]:
    """Those that are there and may name servers, by client. `platform` as in `sys.platform`; both folders absolute."""
    places = Places(home=home, environ=environ, platform=platform, cwd=cwd).folders()
    configs = (_look_at(host, path, settings) for host, path in _paths(places))
    read_only = {Path(host.settings.format_map(places)) for host in HOSTS.values() if host.settings}
    own = {Path(place.format_map(places)) for host in HOSTS.values() for place in (host.place, host.settings)}
    return [
        replace(each, is_only_read=each.path in read_only, is_of_project=cwd != home and each.path not in own)
        for each in configs
        if each is not None
    ]


def _paths(folder_paths: Mapping[str, Path]) -> Iterator[tuple["Host", Path]]:
    """Each once: the project may be the home itself."""
    paths = set[Path]()
    for host in HOSTS.values():
        for place in filter(None, (host.place, host.settings, host.project)):
            if (path := Path(place.format_map(folder_paths))) not in paths:
                paths.add(path)
                yield host, path


def _look_at(host: "Host", path: Path, settings: Settings) -> KnownConfig | None:
    """None if it is not there, or is a file of settings that says nothing of servers."""
    try:
        if not path.is_file():
            return None
        document = parse_file(path, settings)
    except OSError as exc:
        return KnownConfig(host=host, path=path, fault=f"cannot be read: {exc.strerror}")
    except SourceError as error:
        return KnownConfig(host=host, path=path, fault=error.reason)
    if not mcp_config.fits(document):
        return None if path.name in _SETTINGS else KnownConfig(host=host, path=path)
    intake = Intake(where=str(path))
    records = list(mcp_config.read(document, str(path), intake))
    gateways = [record for record in records if is_gateway(record.transport)]
    servers = [record for record in records if record not in gateways]
    names = [*(str(record.key) for record in servers), *(fault.key or fault.where for fault in intake.rejected)]
    registries = tuple(registry_of(record.transport) for record in gateways)
    members = edit.members(path.read_text("utf-8-sig"), [host.table]) if host.syntax == "json" else None
    repeats = repeated_names(member.name for member in members or ())
    commands = tuple(
        f"{record.key}: {_launch_line(fields_of(record.transport))}"
        + (" (the file has more than one of this name: this is the last)" if record.key in repeats else "")
        for record in servers
        if record.tags != (mcp_config.DISABLED,)
    )
    return KnownConfig(host=host, path=path, names=tuple(names), registries=registries, commands=commands)


def _launch_line(transport: Mapping[str, object]) -> str:
    """The command line or the address, with references in place of secrets."""
    try:
        safe = references_only(transport)
    except ValueError:
        return "an address that cannot be read"
    return str(safe["url"]) if "url" in safe else shlex.join(map(str, [safe["command"], *items_of(safe["args"])]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`place`, `project`: the user's file and a project's, with the names of `folders` in braces. `settings`: a file
    of the user's in which servers may stand, too, and that is only read.

    `table`: under which name servers stand. `folders`: under which name the user's file keeps tables of single folders,
    by their paths. `address_key`: the field of an address. `reference`: how a variable of the
    environment is referred to, with `{}` for its name. `typed`: whether an entry says what it is by `type`.
    """

    id: str
    name: str
    place: str
    project: str = ""
    settings: str = ""
    table: str = "mcpServers"
    folders: str = ""
    syntax: Literal["json", "toml"] = "json"
    address_key: str = ""
    reference: str = ""
    bare_variables: bool = False
    """Whether it also refers to a variable as `$NAME`."""
    has_type: bool = False
    extra_fields: Mapping[str, bool] = field(default_factory=dict)
    """What an entry says so that the model sees the server's tools from the start: hosts hide tools behind a search."""
    restart: str = ""
    """What a person does so that the host reads its config again."""
    client: str = ""
    """How its name at `initialize` begins, in small letters and hyphens; empty: with its id."""

    def file(self, around: "Places", *, project: bool = False) -> Path:
        """Raises InvalidSetting if the host has no config of a project."""
        if project and not self.project:
            raise InvalidSetting(f"{self.name} has no config of a single project: leave --project away")
        return Path((self.project if project else self.place).format_map(around.folders()))

    def project_file(self, around: "Places") -> Path | None:
        return self.file(around, project=True) if self.project else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What places depend on. `platform` as in `sys.platform`; both folders absolute."""

    home: Path
    environ: Mapping[str, str]
    platform: str
    cwd: Path

    def folders(self) -> dict[str, Path]:
        """What places of configs are made of. `programs`: where the system keeps programs' data; `cwd`: the project;
        `claude`, `codex` and `zed`: the programs' own.
        """
        if self.platform == "win32":
            programs = Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
            zed = programs / "Zed"
        elif self.platform == "darwin":
            programs, zed = self.home / "Library" / "Application Support", self.home / ".config" / "zed"
        else:
            programs = Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")
            zed = programs / "zed"
        return {
            "programs": programs,
            "home": self.home,
            "cwd": self.cwd,
            "claude": Path(self.environ.get("CLAUDE_CONFIG_DIR") or self.home),
            "codex": Path(self.environ.get("CODEX_HOME") or self.home / ".codex"),
            "zed": zed,
        }


_VS_CODE = Host(
    id="vscode", name="VS Code", place="{programs}/Code/User/mcp.json", settings="{programs}/Code/User/settings.json",
    project="{cwd}/.vscode/mcp.json", table="servers", address_key="url", reference="${{env:{}}}", has_type=True,
    restart="start the server by the line above its entry in mcp.json, or by `MCP: List Servers`",
    client="visual-studio-code",
)  # fmt: skip
HOSTS: Mapping[str, Host] = {
    host.id: host
    for host in (
        Host(
            id="claude", name="Claude Desktop", place="{programs}/Claude/claude_desktop_config.json",
            restart="quit Claude Desktop and start it again",
        ),
        Host(
            id="claude-code", name="Claude Code", place="{claude}/.claude.json", project="{cwd}/.mcp.json",
            folders="projects", address_key="url", reference="${{{}}}", has_type=True,
            extra_fields={"alwaysLoad": True}, restart="start a new session of Claude Code; /mcp shows the server",
        ),
        Host(
            id="codex", name="Codex", place="{codex}/config.toml", project="{cwd}/.codex/config.toml",
            table="mcp_servers", syntax="toml", address_key="url",
            restart="start a new session of Codex; /mcp shows the server",
        ),
        Host(
            id="cursor", name="Cursor", place="{home}/.cursor/mcp.json", project="{cwd}/.cursor/mcp.json",
            address_key="url", reference="${{env:{}}}",
            restart="Cursor reads its config by itself; its MCP settings show the server",
        ),
        Host(
            id="gemini-cli", name="Gemini CLI", place="{home}/.gemini/settings.json",
            project="{cwd}/.gemini/settings.json", address_key="httpUrl", reference="${{{}}}", bare_variables=True,
            restart="start Gemini CLI again; /mcp shows the server",
        ),
        _VS_CODE,
        replace(
            _VS_CODE, id="vscode-insiders", name="VS Code Insiders", client="visual-studio-code-insiders",
            place="{programs}/Code - Insiders/User/mcp.json",
            settings="{programs}/Code - Insiders/User/settings.json",
        ),
        Host(
            id="windsurf", name="Windsurf", place="{home}/.codeium/windsurf/mcp_config.json", address_key="serverUrl",
            reference="${{env:{}}}", restart="press Refresh in Cascade's list of MCP servers",
        ),
        Host(
            id="zed", name="Zed", place="{zed}/settings.json", project="{cwd}/.zed/settings.json",
            table="context_servers", address_key="url",
            restart="Zed reads its settings by itself; the agent panel's settings show the server",
        ),
    )
}  # fmt: skip


def host_named(name: str) -> Host:
    """Raises InvalidSetting."""
    if (host := HOSTS.get(name.casefold())) is None:
        raise InvalidSetting(f"host {name!r} is not known; known: {', '.join(HOSTS)}")
    return host


def host_of_client(client: str) -> Host | None:
    """The host that calls itself so at `initialize`, as far as its name tells: `cursor-vscode` is Cursor."""
    name = _NO_NAME.sub("-", client.casefold())
    fitting = [host for host in HOSTS.values() if name.startswith(host.client or host.id)]
    return max(fitting, key=lambda host: len(host.client or host.id), default=None)


def absolute(path: str, cwd: Path) -> Path:
    """The path that a person wrote, seen from `cwd`; `~` is the home."""
    return Path(os.path.normpath(cwd / as_written(path)))


def refuse_outside(path: Path, project: Path) -> None:
    """A project is somebody else's work, and a link in it may lead to any file of a person. Raises InvalidSetting."""
    if not (real := path.resolve()).is_relative_to(project.resolve()):
        raise InvalidSetting(f"{path} is a link out of the project, to {real}: name that by --file, if it is meant")


_INSTALLED_PLACES = ("XDG_DATA_HOME", "XDG_CACHE_HOME")
_MODULE = "waygraph.api.cli.app"
_CACHE_MARK = "CACHEDIR.TAG"
"""In a folder of things that can be made again, as uv's cache is (the Cache Directory Tagging Specification)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A command to start, or with `url` a service's endpoint to reach.

    `env`: plain values that the command needs. `secret_names`: names of variables that hold secrets; a host that knows
    references gives their values from its own environment. `has_key`: whether the endpoint is shown WAYGRAPH_API_KEY.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()
    url: str = ""
    has_key: bool = False


def entry_of(host: Host, gateway: Gateway) -> dict[str, Any]:
    """As the host's config has it. Raises InvalidSetting for an address that the host's config cannot reach."""
    return {**(_address(host, gateway) if gateway.url else _command(host, gateway)), **host.extra_fields}


def _command(host: Host, gateway: Gateway) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "stdio"} if host.has_type else {}
    entry |= {"command": gateway.command, "args": list(gateway.args)}
    env = dict(gateway.env)
    if host.reference:
        env |= {name: host.reference.format(name) for name in gateway.secret_names}
    if env:
        entry["env"] = env
    if host.id == "codex" and gateway.secret_names:
        entry["env_vars"] = list(gateway.secret_names)
    return entry


def hands_on(host: Host) -> bool:
    """Whether the host's config can give a variable of its own environment to a server."""
    return bool(host.reference) or host.id == "codex"


def _address(host: Host, gateway: Gateway) -> dict[str, Any]:
    if not host.address_key:
        reason = "config starts commands only: leave --url away, for a bridge to the service"
        raise InvalidSetting(f"{host.name}'s {reason}")
    entry: dict[str, Any] = {"type": "http"} if host.has_type else {}
    entry[host.address_key] = gateway.url
    if not gateway.has_key:
        return entry
    if host.id == "codex":
        return {**entry, "bearer_token_env_var": KEY}
    if not host.reference:
        raise InvalidSetting(
            f"{host.name}'s config knows no references, and a key is not written into it: leave --url away, for a "
            "bridge to the service"
        )
    return {**entry, "headers": {"Authorization": f"Bearer {host.reference.format(KEY)}"}}


def reaches_gateway(host: Host, entry: object) -> bool:
    """By its address, as far as that tells."""
    address = entry.get(host.address_key) if isinstance(entry, Mapping) else None
    return isinstance(address, str) and address.rstrip("/").endswith("/mcp")


# -- of this installation --------------------------------------------------------------------------


def start_entry(
    program: Sequence[str], location: str | Path, environ: Mapping[str, str], *, embedder: str = "", **options: str
) -> Gateway:
    """`waygraph mcp` on this registry. `program`: what starts Waygraph; `location`: absolute, or a URL. `options`: of
    `mcp`; an empty one is left out.

    Settings that the environment gives go with it: a host starts it with an environment of its own.
    """
    args = [*program[1:], "--registry", str(location), *(["--embedder", embedder] if embedder else []), "mcp"]
    plain, secret = _told_settings(environ)
    return Gateway(
        command=program[0],
        args=(*args, *(word for name, value in options.items() if value for word in (f"--{name}", value))),
        env=plain,
        secret_names=tuple(secret),
    )


def service_entry(place: str, environ: Mapping[str, str], *, namespace: str = "") -> Gateway:
    """The `/mcp` of a service. Raises InvalidSetting for a place that is none."""
    from waygraph.registry.storage.location import ServiceAddress

    url = ServiceAddress.parse(place).url
    return Gateway(url=f"{url}/{namespace}/mcp" if namespace else f"{url}/mcp", has_key=bool(environ.get(KEY)))


def program_of(executable: str) -> list[str]:
    """What starts this installation: the command beside its Python, else the module.

    An environment in a cache, as `uvx` makes one, can be gone tomorrow: then `uvx` with what it was made of.
    """
    above = Path(executable).parents[2:]  # uv marks each environment as well, also one that stays
    if any((folder / _CACHE_MARK).is_file() for folder in above):
        model = _requirement("waygraph-minilm")
        with_model = ["--with", model] if model else []
        return [shutil.which("uvx") or "uvx", "--from", _requirement(NAME) or NAME, *with_model, NAME]
    beside = Path(executable).parent / ("waygraph.exe" if os.name == "nt" else "waygraph")
    return [str(beside)] if beside.is_file() else [executable, "-m", _MODULE]


def _requirement(distribution: str) -> str:
    """The installed one: its version, or the address that it was installed from; empty: it is not here."""
    try:
        installation = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return ""
    address = address_of_origin(json.loads(installation.read_text("direct_url.json") or "{}"))
    return f"{distribution} @ {address}" if address else f"{distribution}=={installation.version}"


def _told_settings(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Plain ones with their values, paths as they are from here; secret ones by name. Raises InvalidSetting."""
    secret = {f"{PREFIX}{each.name.upper()}" for each in fields(Settings) if not each.repr}
    names = {f"{PREFIX}{each.name.upper()}" for each in fields(Settings)} | set(_INSTALLED_PLACES)
    variables = {name: value for name, value in sorted(environ.items()) if name in names and value}
    plain = {name: value for name, value in variables.items() if name not in secret}
    paths = [name for name in plain if name.endswith(("_DIR", "_FILE"))]  # hosts start commands in folders of their own
    plain |= {name: str(as_written(plain[name]).absolute()) for name in paths}
    return plain, [name for name in variables if name in secret]


_PROGRAM_FOLDERS = {"{codex}": ".codex", "{zed}": "zed"}
"""How the folders that these programs have to themselves are called; what stands before them differs by system."""
_SHARED_SERVERS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
"""Where an owner and a repository tell more than the server."""


def titles_of(sources: Iterable[str]) -> dict[str, str]:
    """Return the title of each source by its name. Titles that differ by case at most are followed by the names."""
    titles = {source: title_of(source) for source in sources}
    counts = Counter(map(str.casefold, titles.values()))
    return {name: title if counts[title.casefold()] == 1 else f"{title}, {name}" for name, title in titles.items()}


def title_of(source: str) -> str:
    """Return what people call the source of this name; where nothing better is known, the name itself."""
    if "://" in source:
        try:
            url = urlsplit(source)
        except ValueError:  # a name may be anything
            return source
        server, words = url.hostname or source, url.path.removesuffix("/").removesuffix(".git").split("/")
        return "/".join([server, *words[1:3]]) if server in _SHARED_SERVERS else server
    path = PurePath(source.replace("\\", "/"))
    parts = tuple(map(str.casefold, path.parts))
    for host in HOSTS.values():
        if path.parent.name == "hosts" and re.fullmatch(rf"{host.id}(-[0-9a-f]{{12}})?\.json", path.name):
            return host.name  # our own file of the servers that were taken over from it
        if any(parts[-len(tail) :] == tail for tail in _tails(host)):
            return host.name
    return "/".join(path.parts[-2:]) if path.is_absolute() else source


def _tails(host: Host) -> Iterator[tuple[str, ...]]:
    """How the paths of its configs end."""
    for place in filter(None, (host.place, host.settings, host.project)):
        folder, *rest = PurePath(place).parts
        yield tuple(map(str.casefold, filter(None, (_PROGRAM_FOLDERS.get(folder, ""), *rest))))
