"""How an agent is reached, with references in place of secrets: no value of a variable or header goes further."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

SECRET_MAPS = ("env", "headers")
_REFERENCE = re.compile(r"\$\{[^}]+\}")
_HARMLESS = re.compile(r"(?i)bearer|basic|token|\s")
_SECRET_NAME = re.compile(r"(?i)^[\w-]*(token|secret|passw(or)?d|api[-_]?key|access[-_]?key|auth|credential)[\w-]*$")
_HEADER_FLAGS = ("-H", "--header")


def references_only(transport: Mapping[str, object]) -> dict[str, object]:
    """The same launch or address, each literal in `env` and `headers`, secret argument and URL login replaced.

    `{"env": {"TOKEN": "abc"}}` becomes `{"env": {"TOKEN": "${TOKEN}"}}`.
    """
    kept: dict[str, object] = {}
    for name, value in transport.items():
        if name in SECRET_MAPS and isinstance(value, Mapping):
            kept[name] = {key: _reference(str(key), item) for key, item in value.items()}
        elif name == "args" and isinstance(value, list):
            kept[name] = _arguments(value)
        elif name == "url" and isinstance(value, str):
            kept[name] = _address(value)
        elif _SECRET_NAME.match(str(name)) and isinstance(value, str):
            kept[name] = _reference(name, value)
        else:
            kept[name] = value
    return kept


def _reference(name: str, value: object) -> object:
    """The value if it is made of references alone, else a reference by the variable's name."""
    if isinstance(value, str) and _REFERENCE.search(value) and not _HARMLESS.sub("", _REFERENCE.sub("", value)):
        return value
    return "${" + name + "}"


def _arguments(arguments: list[object]) -> list[object]:
    kept: list[object] = []
    for argument in arguments:
        before = str(kept[-1]) if kept else ""
        if before in _HEADER_FLAGS:
            kept.append(_named(str(argument), ":"))
        elif before.startswith("-") and _SECRET_NAME.match(before) and not str(argument).startswith("-"):
            kept.append(_reference(before.lstrip("-"), argument))
        elif _SECRET_NAME.match(str(argument).partition("=")[0]):
            kept.append(_named(str(argument), "="))
        else:
            kept.append(argument)
    return kept


def _named(argument: str, mark: str) -> str:
    """`--token=abc`, `TOKEN=abc` (docker's -e), `Authorization: abc`, each with a reference for the value."""
    name, found, value = argument.partition(mark)
    if not found:
        return argument
    space = value[: len(value) - len(value.lstrip())]
    return f"{name}{mark}{space}{_reference(name.lstrip('-'), value.strip())}"


def _address(url: str) -> str:
    """Without login; a query's values become references, since keys are often passed there."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(_query_part(part) for part in parts.query.split("&") if part)
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def _query_part(part: str) -> str:
    name, equals, value = part.partition("=")
    return f"{name}={_reference(name, value)}" if equals else part
