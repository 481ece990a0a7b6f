"""One server of a host's configuration: its entry as any host writes it, what is kept of it, and how it is started or
reached.

First an entry is brought into one form, with `type` (stdio, http or sse), `command`, `args`, `env`, `envFile`, `cwd`,
`url`, `headers`, `oauth`, `name` and `description`. Hosts call the same by other names, nest it, and name variables in
fields of their own. Names are compared without case, `_` and `-`. Fields that say nothing of the launch are dropped.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import Resolver, Scope, UnresolvedReference
from waygraph.ingest.manifest.fields import fields_of, items_of, map_texts
from waygraph.ingest.manifest.records import HttpLaunch, Launch, OAuthClient, StdioLaunch, ToolLimit, is_lines, shape_of
from waygraph.ingest.manifest.transport import path_keys, without_path_keys
from waygraph.ingest.sources.formats.switches import LIMITS, SWITCHES, Faulty, entry_limits, is_off, plain_name
from waygraph.registry.model.numbers import read_digits

_NAMES: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd"), "args": ("args", "arguments"), "env": ("env", "envs", "environment"),
    "envFile": ("envfile",), "cwd": ("cwd", "workingdirectory"),
    "url": ("httpurl", "serverurl", "url", "uri", "baseurl"), "headers": ("headers", "httpheaders"),
    "oauth": ("oauth",), "isolate": ("isolate",), "name": ("name",), "description": ("description",),
}  # fmt: skip
"""Field → what hosts call it, without case, `_` and `-`; of several the first counts."""
_CLIENT = {name.lower(): name for name in ("clientId", "clientSecret", "callbackPort")}
"""Of `oauth`, where it is an object: a client that was registered by hand."""
_VARIABLES = ("envvars", "envkeys", "envhttpheaders", "bearertokenenvvar", "bearertokenenv", "requestoptions")
ACCESSES = frozenset(("reads", "writes", "reaches"))
"""What an entry may grant its server that is confined."""
_TYPES = ("type", "transport", "transporttype")
_BESIDE = frozenset(
    "alwaysallow alwaysload autoapprove autostart bundled defaulttoolsapprovalmode gallery headershelper icon iconpath"
    " id metadata note required settings source startuptimeoutms startuptimeoutsec timeout title tooltimeoutsec trust"
    " version".split()
)
"""Other fields of entries that hosts are known to write."""
_FIELDS = frozenset(
    {*_TYPES, *SWITCHES, *LIMITS, *_VARIABLES, *_BESIDE, *(name for names in _NAMES.values() for name in names)}
)
_LAUNCH = frozenset((*_NAMES["command"], *_NAMES["url"]))
_OWN_ADDRESSES = frozenset(("httpurl", "serverurl"))
_OF_COMMANDS = frozenset((*_NAMES["args"], *_NAMES["env"]))
_MCP_PATH = re.compile(r"/(?:mcp|sse)(?:[/?#]|$)")
_FORMS = {
    **dict.fromkeys(("stdio", "local", "command", "process"), "stdio"),
    **dict.fromkeys(("http", "streamablehttp", "httpstream", "streamable"), "http"),
    "sse": "sse",
    "remote": "",
}
"""Type, without case, `_` and `-` → the form; empty: the address tells."""
_OF_OPENCODE = ("local", "remote")
_OF_HOST = frozenset("builtin frontend inlinepython inmemory memory platform sdk".split())
_NESTED_FIELDS = ("config", "transport", "command")
"""Fields in which some hosts keep the launch: Goose, Cline, Zed."""

_TEMPLATE = re.compile(r"\$\{\{\s*(?:secrets|inputs|env)\.([A-Za-z_]\w*)\s*\}\}")
_BRACED_REFERENCE = re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}")
_FILE = re.compile(r"(?<!\$)\{file:[^{}]*\}")
_BARE = re.compile(r"\$([A-Za-z_]\w*)")


def names_a_launch(entry: object) -> bool:
    """Whether it has what a server is started or reached by, or says how."""
    return any(plain_name(name) in _LAUNCH or name == "type" for part in parts_of(entry) for name in part)


def is_launch_alone(entry: object) -> bool:
    """Whether it can be nothing but a server's launch: a command may be any program's, and an address any service's.

    A command counts if there is no field that no host is known to write: language servers and containers have those.
    """
    if not isinstance(entry, Mapping):
        return False
    has_form = isinstance(word := _value(entry, _TYPES), str) and _type(word) in _FORMS
    if isinstance(address := _value(entry, _NAMES["url"]), str) and address:
        return has_form or not _plain_names(entry).isdisjoint(_OWN_ADDRESSES) or bool(_MCP_PATH.search(address))
    if not _value(entry, _NAMES["command"]) or not _plain_names(entry) <= _FIELDS:
        return False
    return has_form or not _plain_names(entry).isdisjoint(_OF_COMMANDS)


def standard_entry(entry: object, *, bare_variables: bool = False) -> dict[str, Any]:
    """`bare_variables`: the host also refers to a variable as `$NAME`. Raises Faulty; values are not checked yet."""
    if not isinstance(entry, Mapping):
        raise Faulty(f"expected an object, found {shape_of(entry)}")
    fields = _flat(entry)
    launch = {name: value for name, names in _NAMES.items() if (value := _value(fields, names)) is not None}
    if form := _form_word(fields):
        launch["type"] = form
    if isinstance(launch.get("command"), list):
        words, args = launch["command"], launch.get("args")
        rest = [*words[1:], *args] if isinstance(args, list) else words[1:] if args is None else args
        launch |= {"command": words[0] if words else "", "args": rest}
    if isinstance(oauth := launch.get("oauth"), Mapping):
        client = {name: value for word, name in _CLIENT.items() if (value := _value(oauth, (word,)))}
        launch["oauth"] = not is_off([oauth]) and (client or bool(oauth))
    _add_variables(launch, fields)
    resolve = _references(
        bare=bare_variables or _value(fields, ("httpurl",)) is not None,
        braces=_type(str(_value(fields, _TYPES))) in _OF_OPENCODE,
    )
    others = ("type", "name", "description", "isolate")
    return {name: value if name in others else map_texts(value, resolve) for name, value in launch.items()}


# -- where a field stands --------------------------------------------------------------------------


def _plain_names(entry: Mapping[Any, Any]) -> set[str]:
    return set(map(plain_name, entry))


def parts_of(entry: object) -> Iterator[Mapping[Any, Any]]:
    """The entry, and what is nested in it. The program of a nested command is its `path`."""
    if not isinstance(entry, Mapping):
        return
    yield entry
    for name in _NESTED_FIELDS:
        if isinstance(part := entry.get(name), Mapping) and name == "command":
            yield {"command" if field == "path" else field: value for field, value in part.items()}
        elif isinstance(part, Mapping) and not _plain_names(part).isdisjoint(_LAUNCH):
            yield part


def _flat(entry: Mapping[Any, Any]) -> dict[Any, Any]:
    """What is nested counts before what is beside it."""
    fields = {
        name: value for name, value in entry.items() if name not in _NESTED_FIELDS or not isinstance(value, Mapping)
    }
    for part in list(parts_of(entry))[1:]:
        fields |= {name: value for name, value in part.items() if value or name not in fields}
    return fields


def _value(fields: Mapping[Any, Any], names: tuple[str, ...]) -> Any:
    """The first that is there; null is none."""
    plain = {plain_name(name): value for name, value in fields.items() if value is not None}
    values = [plain[name] for name in names if name in plain]
    return next((value for value in values if value), values[0] if values else None)


# -- what a field says -----------------------------------------------------------------------------


def _form_word(fields: Mapping[Any, Any]) -> str:
    """Empty: what else is there tells. Raises Faulty."""
    word = _value(fields, _TYPES)
    if _value(fields, ("source",)) == "extension":
        raise Faulty("belongs to an extension of its host, and is no server that can be started from here")
    if word is None:
        return "http" if _value(fields, ("httpurl",)) else ""
    plain = _type(word) if isinstance(word, str) else ""
    if plain in _OF_HOST:
        raise Faulty("is a part of its host, and no server that can be started from here")
    if plain not in _FORMS:
        raise Faulty("its type is not known; known: stdio, http, streamable-http, sse")
    return _FORMS[plain]


def _type(word: str) -> str:
    return plain_name(word).replace(" ", "")


def _add_variables(launch: dict[str, Any], fields: Mapping[Any, Any]) -> None:
    """Variables of the environment that are handed on by their names, and headers that are kept elsewhere."""
    plain = {plain_name(name): value for name, value in fields.items()}
    env = {name: f"${{{name}}}" for field in ("envvars", "envkeys") for name in _listed_names(plain.get(field))}
    headers = dict(fields_of(fields_of(plain.get("requestoptions")).get("headers")))
    headers |= {name: f"${{{variable}}}" for name, variable in fields_of(plain.get("envhttpheaders")).items()}
    if bearer := plain.get("bearertokenenvvar", plain.get("bearertokenenv")):
        headers["Authorization"] = f"Bearer ${{{bearer}}}"
    if env and isinstance(launch.get("env", {}), Mapping):
        launch["env"] = {**env, **launch.get("env", {})}
    if headers and isinstance(launch.get("headers", {}), Mapping):
        launch["headers"] = {**launch.get("headers", {}), **headers}


def _listed_names(value: object) -> list[str]:
    """Names, or objects with a name."""
    names = [item.get("name") if isinstance(item, Mapping) else item for item in items_of(value)]
    return [name for name in names if isinstance(name, str) and name]


def _references(*, bare: bool, braces: bool) -> Callable[[str], str]:
    """Hosts' own forms of a reference to a variable, as `${NAME}`: `$NAME`, `{env:NAME}`."""

    def resolve(text: str) -> str:
        if braces and _FILE.search(text):
            raise Faulty("holds {file:…}, which only its host resolves")
        text = _TEMPLATE.sub(r"${\1}", text)
        text = _BRACED_REFERENCE.sub(r"${\1}", text) if braces else text
        return _BARE.sub(r"${\1}", text) if bare else text

    return resolve


MAX_ENV_FILE_BYTES = 1024 * 1024
_LABELS = ("disabled", "limits", "name", "description")
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
    oauth: bool | Mapping[str, str] = False
    """With the fields of a client that was registered by hand."""
    isolate: bool | Mapping[str, tuple[str, ...]] | None = field(default=None, repr=False)
    """As of a StdioLaunch."""
    disabled: bool = False
    limits: tuple[ToolLimit, ...] = ()
    name: str = ""
    description: str = ""

    @property
    def entry(self) -> dict[str, object]:
        """Alike for the same launch, in whichever host's words it was written. It may hold secrets."""
        if self.form != "stdio":
            oauth = _launch_fields(oauth=self.oauth)
            return {"type": self.form, "url": self.url, **_launch_fields(headers=self.headers), **oauth}
        rest = _launch_fields(env=self.env, envFile=self.env_file, cwd=self.cwd)
        rest |= {} if self.isolate is None else {"isolate": self.isolate}
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
        if self.isolate is None:
            del own_fields["isolate"]  # what was noted before there was one stays valid
        text = json.dumps(own_fields, sort_keys=True)
        own_inputs = {name: default for name, default in inputs.items() if f"input:{json.dumps(name)[1:-1]}}}" in text}
        env = launch.env if isinstance(launch, StdioLaunch) else {}
        in_file = {name: value for name, value in env.items() if name not in self.env}
        return json.dumps([own_fields, in_file, own_inputs, project], sort_keys=True)


def read_server(entry: object, *, bare_variables: bool = False) -> ConfiguredServer:
    """`bare_variables`: as of `standard_entry`. Raises Faulty."""
    standard = standard_entry(entry, bare_variables=bare_variables)
    if (form := _form(standard)) == "stdio":
        own: dict[str, Any] = {
            "command": _text(standard, "command"),
            "args": _arguments(standard),
            "env": _texts(standard, "env"),
            "env_file": _text(standard, "envFile"),
            "cwd": _text(standard, "cwd"),
            "isolate": read_isolation(standard.get("isolate")),
        }
    else:
        own = {"url": _text(standard, "url"), "headers": _texts(standard, "headers")}
    return ConfiguredServer(
        form=form,
        oauth=_texts(standard, "oauth") if isinstance(standard.get("oauth"), Mapping) else bool(standard.get("oauth")),
        disabled=is_off(parts_of(entry)),
        limits=entry_limits(parts_of(entry)),
        name=_label(standard, "name"),
        description=_label(standard, "description"),
        **own,
    )


def launch_of(server: ConfiguredServer, scope: Scope) -> Launch:
    """With every reference resolved. Raises Faulty, also if an `envFile` cannot be read."""
    resolver = Resolver(scope)
    resolve = resolver.text
    try:
        server = replace(
            server,
            command=resolve(server.command),
            args=tuple(map(resolve, server.args)),
            env={name: resolve(value) for name, value in server.env.items()},
            env_file=resolve(server.env_file),
            cwd=resolve(server.cwd),
            url=resolve(server.url),
            headers={name: resolve(value) for name, value in server.headers.items()},
            oauth=map_texts(server.oauth, resolve),
        )
        resolver.finish()  # a file is read only once every reference is known to be set
    except UnresolvedReference as exc:
        raise Faulty(str(exc)) from None
    return (_stdio_launch if server.form == "stdio" else _http_launch)(server, scope, resolver.confidential)


# -- fields ----------------------------------------------------------------------------------------


def _form(entry: Mapping[Any, Any]) -> Literal["stdio", "http", "sse"]:
    if (form := entry.get("type")) is None:
        command, url = bool(entry.get("command")), bool(entry.get("url"))
        if command and url:
            raise Faulty("has a `command` and a `url`; say by `type` which one counts")
        if not command and not url:
            raise Faulty("has neither a `command` nor a `url`")
        return "stdio" if command else form_of_url(_text(entry, "url"))
    name = "command" if form == "stdio" else "url"
    if not entry.get(name):
        raise Faulty(f"is of type {form} and has no `{name}`")
    return "stdio" if form == "stdio" else "sse" if form == "sse" else "http"


def form_of_url(url: str) -> Literal["http", "sse"]:
    try:
        path = urlsplit(url).path
    except ValueError:
        raise Faulty("its url cannot be read") from None  # the error's text holds the URL's login
    return "sse" if path.rstrip("/").endswith("/sse") else "http"


def _text(entry: Mapping[Any, Any], name: str) -> str:
    if (value := entry.get(name)) is not None and not isinstance(value, str):
        raise Faulty(f"{name}: expected a string, found {shape_of(value)}")
    if value and "\x00" in value:
        raise Faulty(f"{name}: holds a null character")
    return value or ""


def _arguments(entry: Mapping[Any, Any]) -> tuple[str, ...]:
    if (value := entry.get("args")) is not None and not isinstance(value, (list, tuple)):
        raise Faulty(f"args: expected a list of strings, found {shape_of(value)}")
    return tuple(_scalar("args", item) for item in value or ())


def _texts(entry: Mapping[Any, Any], name: str) -> dict[str, str]:
    """A value of null unsets, as VS Code has it: it is left out."""
    if (value := entry.get(name)) is not None and not isinstance(value, Mapping):
        raise Faulty(f"{name}: expected an object, found {shape_of(value)}")
    if not all(isinstance(key, str) and key and not set(key) & set("=\x00\r\n") for key in value or ()):
        raise Faulty(f"{name}: holds a name that cannot be one")
    return {key: _scalar(name, item) for key, item in (value or {}).items() if item is not None}


def read_isolation(value: object) -> bool | dict[str, tuple[str, ...]] | None:
    """Raises Faulty: what is asked to be confined is not started by a word that nobody understands."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping) and value.keys() <= ACCESSES and all(map(is_lines, value.values())):
        return {str(name): tuple(each) for name, each in value.items()}
    raise Faulty(f"isolate: expected true, false, or lists of strings under {', '.join(sorted(ACCESSES))}")


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


def _stdio_launch(server: ConfiguredServer, scope: Scope, confidential: frozenset[str]) -> StdioLaunch:
    if not server.command.strip():
        raise Faulty("its command is empty")
    folder = scope.workspace or scope.surroundings.cwd
    file_env = _variables_in(Path(folder, server.env_file)) if server.env_file else {}
    return StdioLaunch(
        command=server.command,
        args=server.args,
        env={**file_env, **server.env},
        cwd=str(Path(folder, server.cwd)) if server.cwd else scope.workspace,
        isolate=server.isolate,
        confidential=confidential.union(*map(path_keys, server.args)),
    )


def _http_launch(server: ConfiguredServer, _scope: Scope, confidential: frozenset[str]) -> HttpLaunch:
    from waygraph.registry.http.addresses import split_url

    if (parts := split_url(server.url)) is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Faulty("its url is none that begins with https:// or http://")
    client = server.oauth if isinstance(server.oauth, Mapping) else {}
    port = read_digits(client.get("callbackPort", "0"), 0, 65_535)
    if port is None:
        raise Faulty("oauth: callbackPort is no port, which is a number from 1 to 65535")
    client_id, secret = client.get("clientId", ""), client.get("clientSecret", "")
    return HttpLaunch(
        url=server.url,
        headers={name: value for name, value in server.headers.items() if value},  # an empty one is one nobody gave
        form="sse" if server.form == "sse" else "http",
        oauth=bool(server.oauth),
        oauth_client=OAuthClient(client_id, secret, port) if client_id else None,
        confidential=confidential | path_keys(server.url) | ({secret} if "clientSecret" in client else set()),
    )


def _variables_in(file: Path) -> dict[str, str]:
    """Of an `envFile`, in dotenv's format. No error names it: its path may hold a secret."""
    from dotenv import dotenv_values

    try:
        # A pipe would keep its reader waiting for ever.
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise Faulty("its envFile is no file")
        with file.open("rb") as stream:
            content = stream.read(MAX_ENV_FILE_BYTES + 1)
        if len(content) > MAX_ENV_FILE_BYTES:
            raise Faulty(f"its envFile has more than {MAX_ENV_FILE_BYTES} bytes")
        text = content.decode("utf-8-sig")
    except OSError as exc:
        raise Faulty(f"its envFile cannot be read: {exc.strerror}") from None
    except ValueError:
        raise Faulty("its envFile cannot be read: it is not UTF-8 text") from None
    values = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}
