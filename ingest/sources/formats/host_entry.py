"""A server's entry as any host writes it, in the one form that is read further.

That form has `type` (stdio, http or sse), `command`, `args`, `env`, `envFile`, `cwd`, `url`, `headers`, `oauth`, `name`
and `description`. Hosts call the same by other names, nest it, and name variables in fields of their own. Names are
compared without case, `_` and `-`. Fields that say nothing of the launch are dropped.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import shape_of


class Faulty(Exception):
    """What is wrong with a server's entry; its message holds no value of it."""


_NAMES: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd"),
    "args": ("args", "arguments"),
    "env": ("env", "envs", "environment"),
    "envFile": ("envfile",),
    "cwd": ("cwd", "workingdirectory"),
    "url": ("httpurl", "serverurl", "url", "uri", "baseurl"),
    "headers": ("headers", "httpheaders"),
    "oauth": ("oauth",),
    "name": ("name",),
    "description": ("description",),
}
"""Field → what hosts call it, without case, `_` and `-`; of several the first counts."""
_VARIABLES = ("envvars", "envkeys", "envhttpheaders", "bearertokenenvvar", "bearertokenenv", "requestoptions")
_TYPES = ("type", "transport", "transporttype")
_SWITCHES = {
    **dict.fromkeys(("disabled", "disable", "isdisabled"), True),
    **dict.fromkeys(("enabled", "enable", "isenabled", "active", "isactive"), False),
}
"""Field → the value by which it switches a server off."""
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}
_BESIDE = frozenset(
    "alwaysallow alwaysload autoapprove autostart bundled defaulttoolsapprovalmode disabledtools enabledtools"
    " excludetools gallery headershelper icon iconpath id includetools metadata note required settings source"
    " startuptimeoutms startuptimeoutsec timeout title tools toolspolicy tooltimeoutsec trust version".split()
)
"""Other fields of entries that hosts are known to write."""
_FIELDS = frozenset(
    {*_TYPES, *_SWITCHES, *_VARIABLES, *_BESIDE, *(name for names in _NAMES.values() for name in names)}
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
    return any(_plain(name) in _LAUNCH or name == "type" for part in _parts(entry) for name in part)


def is_launch_alone(entry: object) -> bool:
    """Whether it can be nothing but a server's launch: a command may be any program's, and an address any service's.

    A command counts if there is no field that no host is known to write: language servers and containers have those.
    """
    if not isinstance(entry, Mapping):
        return False
    has_form = isinstance(word := _value(entry, _TYPES), str) and _type(word) in _FORMS
    address = _value(entry, _NAMES["url"])
    if isinstance(address, str) and address:
        return has_form or not _plain_names(entry).isdisjoint(_OWN_ADDRESSES) or bool(_MCP_PATH.search(address))
    if not _value(entry, _NAMES["command"]) or not _plain_names(entry) <= _FIELDS:
        return False
    return has_form or not _plain_names(entry).isdisjoint(_OF_COMMANDS)


def is_off(entry: object) -> bool:
    """Whether any of its fields switches the server off. Raises Faulty for a switch that says neither."""
    switches = [(name, value) for part in _parts(entry) for name, value in part.items() if _plain(name) in _SWITCHES]
    return True in {_switch_value(name, value) is _SWITCHES[_plain(name)] for name, value in switches}


def standard_entry(entry: object, *, bare_variables: bool = False) -> dict[str, Any]:
    """`bare_variables`: the host also refers to a variable as `$NAME`. Raises Faulty; values are not checked yet."""
    if not isinstance(entry, Mapping):
        raise Faulty(f"expected an object, found {shape_of(entry)}")
    fields = _flat(entry)
    launch = {name: value for name, names in _NAMES.items() if (value := _value(fields, names)) is not None}
    form = _form(fields)
    if form:
        launch["type"] = form
    if isinstance(launch.get("command"), list):
        words, args = launch["command"], launch.get("args")
        rest = [*words[1:], *args] if isinstance(args, list) else words[1:] if args is None else args
        launch |= {"command": words[0] if words else "", "args": rest}
    if isinstance(launch.get("oauth"), Mapping) and is_off(launch["oauth"]):
        launch["oauth"] = False
    _add_variables(launch, fields)
    resolve = _references(
        bare=bare_variables or _value(fields, ("httpurl",)) is not None,
        braces=_type(str(_value(fields, _TYPES))) in _OF_OPENCODE,
    )
    labels = ("type", "oauth", "name", "description")
    return {name: value if name in labels else _each_text(value, resolve) for name, value in launch.items()}


# -- where a field stands --------------------------------------------------------------------------


def _plain(name: object) -> str:
    return str(name).casefold().replace("_", "").replace("-", "")


def _plain_names(entry: Mapping[Any, Any]) -> set[str]:
    return set(map(_plain, entry))


def _parts(entry: object) -> Iterator[Mapping[Any, Any]]:
    """The entry, and what is nested in it. The program of a nested command is its `path`."""
    if not isinstance(entry, Mapping):
        return
    yield entry
    for name in _NESTED_FIELDS:
        part = entry.get(name)
        if isinstance(part, Mapping) and name == "command":
            yield {"command" if field == "path" else field: value for field, value in part.items()}
        elif isinstance(part, Mapping) and not _plain_names(part).isdisjoint(_LAUNCH):
            yield part


def _flat(entry: Mapping[Any, Any]) -> dict[Any, Any]:
    """What is nested counts before what is beside it."""
    fields = {
        name: value for name, value in entry.items() if name not in _NESTED_FIELDS or not isinstance(value, Mapping)
    }
    for part in list(_parts(entry))[1:]:
        fields |= {name: value for name, value in part.items() if value or name not in fields}
    return fields


def _value(fields: Mapping[Any, Any], names: tuple[str, ...]) -> Any:
    """The first that is there; null is none."""
    plain = {_plain(name): value for name, value in fields.items() if value is not None}
    values = [plain[name] for name in names if name in plain]
    return next((value for value in values if value), values[0] if values else None)


def _switch_value(name: str, value: object) -> bool | None:
    """True or false; None if it says nothing. Raises Faulty."""
    if value is None or value == "":
        return None
    if isinstance(value, (bool, int, float)):
        return bool(value)
    word = value.strip().casefold() if isinstance(value, str) else ""
    if word not in _WORDS:
        raise Faulty(f"{name}: expected true or false, found {shape_of(value)}")
    return _WORDS[word]


# -- what a field says -----------------------------------------------------------------------------


def _form(fields: Mapping[Any, Any]) -> str:
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
    return _plain(word).replace(" ", "")


def _add_variables(launch: dict[str, Any], fields: Mapping[Any, Any]) -> None:
    """Variables of the environment that are handed on by their names, and headers that are kept elsewhere."""
    plain = {_plain(name): value for name, value in fields.items()}
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
    items = value if isinstance(value, list) else []
    names = [item.get("name") if isinstance(item, Mapping) else item for item in items]
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


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Of a text, and of those in a list or an object: nothing is nested deeper in an entry that is well written."""
    if isinstance(value, Mapping):
        return {name: change(part) if isinstance(part, str) else part for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [change(part) if isinstance(part, str) else part for part in value]
    return change(value) if isinstance(value, str) else value
