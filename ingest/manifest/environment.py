"""What `${…}` means in a client's config. Each host knows some of the forms; all are understood in every file.

- `${NAME}`, `${env:NAME}`: an environment variable. `$NAME` stays as it is.
- `${NAME:-default}`, `${env:NAME:-default}`: the same, and the default, which may hold references, if it is not set.
- `${input:id}`, which VS Code asks for: the variable WAYGRAPH_INPUT_<ID>, else the input's own default unless it is a
  password.
- `${workspaceFolder}`, `${workspaceRoot}`, `${workspaceFolderBasename}`: the project that the config lies in, else our
  working folder.
- `${CLAUDE_PLUGIN_ROOT}`, `${CLAUDE_PROJECT_DIR}`, `${extensionPath}`: that project, plug-in or extension; without
  one, a variable.
- `${userHome}`, `${cwd}`, `${pathSeparator}`, `${/}`: as they say.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Self
from urllib.parse import unquote

# What a config refers to outside itself, handed in: nothing in `ingest` reads the process's environment.


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment, the user's home and the working folder, both absolute.

    By default nothing is known, so that every reference is unset: so a service reads what others send it.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    home: str = ""
    cwd: str = ""

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Self:
        """This process's home and working folder, with the environment that is handed in."""
        return cls(environ=environ, home=str(Path.home()), cwd=str(Path.cwd()))


INPUT_PREFIX = "WAYGRAPH_INPUT_"
MAX_DEPTH = 16
"""Of defaults within defaults."""
_MOST_NAMES = 8
PLAIN = frozenset("HOME LOGNAME PATH PWD SHELL TERM TMPDIR USER".split())
"""Variables whose value is no secret, and makes errors readable."""
_OF_PLUGINS = ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PROJECT_DIR", "extensionPath")
_MARK = re.compile(r"\$\{|\}")
_VARIABLE = re.compile(r"(?s)(?:env:)?([A-Za-z_]\w{0,127})(?::-(.*))?")
_INPUT = re.compile(r"input:([^${}:]{1,128})")
_EDITORS_OWN = re.compile(r"(command|config|extensionInstallFolder|workspaceFolder):")
_REFERENCE_FORMS = "${NAME}, ${NAME:-default}, ${env:NAME}, ${input:id}, ${workspaceFolder}, ${userHome}"


class UnresolvedReference(Exception):
    """Why a text cannot be resolved; its message names variables, never a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What references mean in one config. `inputs`: the default of each that has one and is no password."""

    surroundings: Surroundings
    workspace: str = ""
    """The project's folder, absolute; empty: the config is no project's."""
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)


class Resolver:
    """Resolves the texts of one server and keeps what is not set, so that all of it is told at once."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._missing: dict[str, str] = {}
        self._secrets = set[str]()
        self._places = _places(scope)

    @property
    def confidential(self) -> frozenset[str]:
        """What variables and inputs held, and the defaults that stood for them."""
        return frozenset(self._secrets)

    def text(self, text: str) -> str:
        """Raises UnresolvedReference for what is no reference; one that is not set is told by `finish`."""
        return self._text(text, MAX_DEPTH)

    def finish(self) -> None:
        """Raises UnresolvedReference if anything was not set."""
        if self._missing:
            names = [*self._missing.values()][:_MOST_NAMES]
            more = f" and {len(self._missing) - _MOST_NAMES} more" if len(self._missing) > _MOST_NAMES else ""
            raise UnresolvedReference(f"not set in the environment: {', '.join(names)}{more}")

    def _text(self, text: str, depth: int) -> str:
        if not depth:
            raise UnresolvedReference("holds references within references, too deeply")
        result, at = "", 0
        while (start := text.find("${", at)) >= 0:
            end = _end(text, start)
            result += text[at:start] + self._meaning(text[start + 2 : end], depth)
            at = end + 1
        return result + text[at:]

    def _meaning(self, inside: str, depth: int) -> str:
        if inside in self._places:
            return self._set(inside, self._places[inside] or None, f"the folder for ${{{inside}}}", plain=True)
        if match := _VARIABLE.fullmatch(inside):
            name, default = match[1], match[2]
            if (value := self._scope.surroundings.environ.get(name)) is None and default is not None:
                value = self._text(default, depth - 1)
            return self._set(name, value, name, plain=name in PLAIN)
        if match := _INPUT.fullmatch(inside):
            variable = input_variable(match[1])
            value = self._scope.surroundings.environ.get(variable, self._scope.inputs.get(match[1]))
            return self._set(variable, value, f"{variable} (for ${{input:{match[1]}}})")
        if match := _EDITORS_OWN.match(inside):
            raise UnresolvedReference(f"holds ${{{match[1]}:…}}, which only the editor can tell")
        raise UnresolvedReference(f"holds a ${{…}} of no form that is known; known: {_REFERENCE_FORMS}")

    def _set(self, name: str, value: str | None, label: str, *, plain: bool = False) -> str:
        if value is None:
            self._missing[name] = label
        elif value and not plain:
            self._secrets.add(value)
        return value or ""


def input_variable(name: str) -> str:
    """`WAYGRAPH_INPUT_API_KEY` for the input `api-key`."""
    return INPUT_PREFIX + re.sub(r"\W+", "_", name).upper()


def _places(scope: Scope) -> Mapping[str, str]:
    around = scope.surroundings
    folder = scope.workspace or around.cwd
    return {
        **dict.fromkeys(("workspaceFolder", "workspaceRoot"), folder),
        "workspaceFolderBasename": PurePath(folder).name,
        **(dict.fromkeys(_OF_PLUGINS, folder) if scope.workspace else {}),
        "userHome": around.home,
        "cwd": around.cwd,
        **dict.fromkeys(("pathSeparator", "/"), os.sep),
    }


def _end(text: str, start: int) -> int:
    """Where the brace closes that a reference opens; references inside it have their own."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        depth += 1 if mark[0] == "${" else -1
        if not depth:
            return mark.start()
    raise UnresolvedReference("holds a ${ that is not closed")


_OF_A_USER = frozenset("HOME LOGNAME PATH SHELL TERM USER".split())
PROXIES = frozenset("HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split())
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""What names the certificates to believe: OpenSSL, Go, uv and Python's ssl; Node; Python's requests; curl."""
_OF_AN_INSTALLER = re.compile(
    r"""(?xi) (?:uv|npm_config|pip)_
    (?!.*(?:auth|token|password|secret|username|credential|_key))
    .*(?:index|registry|mirror|proxy|offline|cache|cert|ca(?:file)?$|tls|ssl|trusted_host|insecure_host)"""
)
"""Which packages uvx, npx and pipx fetch from where, and whom they believe; never a login."""
CERTIFICATES_TO_TRUST = f"the certificates to trust are named by {', '.join(CERTIFICATES[:-1])} or {CERTIFICATES[-1]}"
_SHORTEST = 4
"""A shorter login hides nothing, and would be struck out of every word."""
_USERINFO = re.compile(r"(?:^|//|\s)([^\s/@]+)@")


def inherited_variables(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The launch's own go before: a proxy in small letters stands for the same in capitals."""
    own_names = {name.upper() for name in own}
    return {name: value for name, value in environ.items() if name.upper() not in own_names and _is_inherited(name)}


def _is_inherited(name: str) -> bool:
    plain = name in _OF_A_USER or name in CERTIFICATES
    return plain or name.upper() in PROXIES or _OF_AN_INSTALLER.match(name) is not None


def installer_addresses(variables: Mapping[str, str]) -> list[str]:
    """Where packages are fetched from, as far as variables say so."""
    names = [name for name in variables if _OF_AN_INSTALLER.match(name) and "proxy" not in name.lower()]
    return [variables[name] for name in names]


def logins_in(variables: Mapping[str, str]) -> set[str]:
    """Those in inherited addresses, such as a proxy's password."""
    values = [value for name, value in variables.items() if name not in _OF_A_USER]
    userinfos = {userinfo for value in values for userinfo in _USERINFO.findall(value)}
    parts = {userinfo.partition(":")[2] or userinfo for userinfo in userinfos}
    return {form for each in userinfos | parts if len(each) >= _SHORTEST for form in (each, unquote(each))}
