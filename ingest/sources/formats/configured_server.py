"""One server of a client's config: its fields checked, then what is kept of it, and how it is started or reached."""

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import Resolver, Scope, UnresolvedReference
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch, shape_of
from waygraph.ingest.manifest.transport import path_keys, without_path_keys
from waygraph.ingest.sources.formats.host_entry import Faulty, is_off, standard_entry
from waygraph.registry.http.addresses import split_url

__all__ = ["ConfiguredServer", "Faulty", "launch_of", "read_server"]

MAX_ENV_FILE_BYTES = 1024 * 1024
_LABELS = ("disabled", "name", "description")
"""What says nothing of the launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredServer:
    """An entry as written, unresolved: each text may hold references and secrets."""

    form: Literal["stdio", "http", "sse"]
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_file: str = field(default="", repr=False)
    cwd: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: bool = False
    disabled: bool = False
    name: str = ""
    description: str = ""

    @property
    def entry(self) -> dict[str, object]:
        """Alike for the same launch, in whichever host's words it was written. It may hold secrets."""
        if self.form != "stdio":
            oauth = _launch_fields(oauth=self.oauth)
            return {"type": self.form, "url": self.url, **_launch_fields(headers=self.headers), **oauth}
        rest = _launch_fields(env=self.env, envFile=self.env_file, cwd=self.cwd)
        return {"command": self.command, "args": list(self.args), **rest}

    @property
    def transport(self) -> dict[str, object]:
        """As the entry, without keys in addresses. It may still hold secrets."""
        if self.form != "stdio":
            return {"type": self.form, "url": without_path_keys(self.url), **_launch_fields(headers=self.headers)}
        return {**self.entry, "args": [without_path_keys(argument) for argument in self.args]}

    def launch_text(self, launch: Launch, inputs: Mapping[str, str], project: str) -> str:
        """All that decides the launch and stands in files, in one text. It holds secrets.

        `launch`: this server's, which has read the `envFile`. `inputs`: the defaults that the config gives; those of
        inputs that other servers ask for do not count. `project`: the folder that the config says it belongs to.
        """
        own_fields = {name: value for name, value in asdict(self).items() if name not in _LABELS}
        text = json.dumps(own_fields, sort_keys=True)
        own_inputs = {name: default for name, default in inputs.items() if f"input:{json.dumps(name)[1:-1]}}}" in text}
        env = launch.env if isinstance(launch, StdioLaunch) else {}
        in_file = {name: value for name, value in env.items() if name not in self.env}
        return json.dumps([own_fields, in_file, own_inputs, project], sort_keys=True)


def read_server(entry: object, *, bare_variables: bool = False) -> ConfiguredServer:
    """`bare_variables`: as of `standard_entry`. Raises Faulty."""
    standard = standard_entry(entry, bare_variables=bare_variables)
    form = _form(standard)
    if form == "stdio":
        own = _stdio_fields(standard)
    else:
        own = {"url": _text(standard, "url"), "headers": _texts(standard, "headers")}
    return ConfiguredServer(
        form=form,
        oauth=bool(standard.get("oauth")),
        disabled=is_off(entry),
        name=_label(standard, "name"),
        description=_label(standard, "description"),
        **own,
    )


def launch_of(server: ConfiguredServer, scope: Scope) -> Launch:
    """With every reference resolved. Raises Faulty, also if an `envFile` cannot be read."""
    resolver = Resolver(scope)
    launch: Callable[[], Launch]
    try:
        launch = _stdio(server, scope, resolver) if server.form == "stdio" else _http(server, resolver)
        resolver.finish()
    except UnresolvedReference as exc:
        raise Faulty(str(exc)) from None
    return launch()


# -- fields ----------------------------------------------------------------------------------------


def _form(entry: Mapping[Any, Any]) -> Literal["stdio", "http", "sse"]:
    form = entry.get("type")
    if form is None:
        return _inferred_form(entry)
    name = "command" if form == "stdio" else "url"
    if not entry.get(name):
        raise Faulty(f"is of type {form} and has no `{name}`")
    return "stdio" if form == "stdio" else "sse" if form == "sse" else "http"


def _inferred_form(entry: Mapping[Any, Any]) -> Literal["stdio", "http", "sse"]:
    command, url = bool(entry.get("command")), bool(entry.get("url"))
    if command and url:
        raise Faulty("has a `command` and a `url`; say by `type` which one counts")
    if not command and not url:
        raise Faulty("has neither a `command` nor a `url`")
    return "stdio" if command else _form_of_url(_text(entry, "url"))


def _form_of_url(url: str) -> Literal["http", "sse"]:
    try:
        path = urlsplit(url).path
    except ValueError:
        raise Faulty("its url cannot be read") from None  # the error's text holds the URL's login
    return "sse" if path.rstrip("/").endswith("/sse") else "http"


def _stdio_fields(entry: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "command": _text(entry, "command"),
        "args": _arguments(entry),
        "env": _texts(entry, "env"),
        "env_file": _text(entry, "envFile"),
        "cwd": _text(entry, "cwd"),
    }


def _text(entry: Mapping[Any, Any], name: str) -> str:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise Faulty(f"{name}: expected a string, found {shape_of(value)}")
    if value and "\x00" in value:
        raise Faulty(f"{name}: holds a null character")
    return value or ""


def _arguments(entry: Mapping[Any, Any]) -> tuple[str, ...]:
    value = entry.get("args")
    if value is not None and not isinstance(value, (list, tuple)):
        raise Faulty(f"args: expected a list of strings, found {shape_of(value)}")
    return tuple(_scalar("args", item) for item in value or ())


def _texts(entry: Mapping[Any, Any], name: str) -> dict[str, str]:
    """A value of null unsets, as VS Code has it: it is left out."""
    value = entry.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise Faulty(f"{name}: expected an object, found {shape_of(value)}")
    if not all(isinstance(key, str) and key and not set(key) & set("=\x00\r\n") for key in value or ()):
        raise Faulty(f"{name}: holds a name that cannot be one")
    return {key: _scalar(name, item) for key, item in (value or {}).items() if item is not None}


def _scalar(name: str, item: object) -> str:
    """A number or a boolean counts as its text in JSON."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, (int, float)):
        return str(item)
    if not isinstance(item, str):
        raise Faulty(f"{name}: expected strings, found {shape_of(item)}")
    if "\x00" in item:
        raise Faulty(f"{name}: holds a null character")
    return item


def _label(entry: Mapping[Any, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _launch_fields(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


# -- launches --------------------------------------------------------------------------------------


def _stdio(server: ConfiguredServer, scope: Scope, resolver: Resolver) -> Callable[[], StdioLaunch]:
    """Puts the launch together once every reference is known to be set: a file is read only then."""
    command = resolver.text(server.command)
    args = tuple(resolver.text(argument) for argument in server.args)
    env = {name: resolver.text(value) for name, value in server.env.items()}
    env_file, cwd = resolver.text(server.env_file), resolver.text(server.cwd)
    folder = scope.workspace or scope.surroundings.cwd

    def launch() -> StdioLaunch:
        if not command.strip():
            raise Faulty("its command is empty")
        file_env = _variables_in(Path(folder, env_file)) if env_file else {}
        where = str(Path(folder, cwd)) if cwd else scope.workspace
        return StdioLaunch(
            command=command,
            args=args,
            env={**file_env, **env},
            cwd=where,
            confidential=resolver.confidential.union(*map(path_keys, args)),
        )

    return launch


def _http(server: ConfiguredServer, resolver: Resolver) -> Callable[[], HttpLaunch]:
    url = resolver.text(server.url)
    headers = {name: resolver.text(value) for name, value in server.headers.items()}

    def launch() -> HttpLaunch:
        parts = split_url(url)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Faulty("its url is none that begins with https:// or http://")
        form: Literal["http", "sse"] = "sse" if server.form == "sse" else "http"
        confidential = resolver.confidential | path_keys(url)
        return HttpLaunch(url=url, headers=headers, form=form, oauth=server.oauth, confidential=confidential)

    return launch


def _variables_in(file: Path) -> dict[str, str]:
    """Of an `envFile`, in dotenv's format. No error names it: its path may hold a secret."""
    from dotenv import dotenv_values

    text = _env_text(file)
    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _env_text(file: Path) -> str:
    try:
        # A pipe would keep its reader waiting for ever.
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise Faulty("its envFile is no file")
        with file.open("rb") as stream:
            content = stream.read(MAX_ENV_FILE_BYTES + 1)
        if len(content) > MAX_ENV_FILE_BYTES:
            raise Faulty(f"its envFile has more than {MAX_ENV_FILE_BYTES} bytes")
        return content.decode("utf-8-sig")
    except OSError as exc:
        raise Faulty(f"its envFile cannot be read: {exc.strerror}") from None
    except ValueError:
        raise Faulty("its envFile cannot be read: it is not UTF-8 text") from None
