"""How an agent is reached, with references in place of secrets: no value of a variable or header goes further."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

SECRET_MAPS = ("env", "headers")
_REFERENCE = re.compile(r"\$\{[^}]+\}")
_HARMLESS = re.compile(r"(?i)bearer|basic|token|\s")
_SECRET_FLAG = re.compile(r"(?i)^--?[\w-]*(token|secret|passw(or)?d|api[-_]?key|access[-_]?key|auth)[\w-]*$")


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
        flag, equals, _ = str(argument).partition("=")
        if kept and _SECRET_FLAG.match(str(kept[-1])) and not str(argument).startswith("-"):
            kept.append(_reference(str(kept[-1]).lstrip("-"), argument))
        elif equals and _SECRET_FLAG.match(flag):
            kept.append(f"{flag}={_reference(flag.lstrip('-'), str(argument)[len(flag) + 1 :])}")
        else:
            kept.append(argument)
    return kept


def _address(url: str) -> str:
    """Without login; a query's values become references, since keys are often passed there."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = "&".join(_query_part(part) for part in parts.query.split("&") if part)
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def _query_part(part: str) -> str:
    name, equals, value = part.partition("=")
    return f"{name}={_reference(name, value)}" if equals else part
