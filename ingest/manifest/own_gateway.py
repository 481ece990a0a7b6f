"""Which servers are gateways of Waygraph itself, of this registry or another: none of them goes behind a gateway.

Three things tell: the command that starts it, what its configuration sends to it, and its name at `initialize`.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import PurePath

from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.registry.model.changes import Rejected
from waygraph.registry.model.settings import PREFIX

NAME = "waygraph"
"""The program, its package, and what a gateway calls itself at `initialize`."""
KEY = f"{PREFIX}API_KEY"
"""The variable with the key of a service."""
LEFT_OUT = "left out: it is a Waygraph gateway itself, and would stand behind a gateway"
_COMMAND = "mcp"
_REGISTRY = "--registry"
_OURS = re.compile(rf"{NAME}(?:[.:@=<>~!\[]\S*)?", re.IGNORECASE)
"""The last part of a path or package: with an ending, a module, a tag, extras or a version."""
_BLANK = re.compile(r"\s")
_MAX_LINE_CHARS = 4_096
"""A longer line is split at its blanks: its quotation marks are not looked at."""
_HTTP = ("http://", "https://")


def starts_gateway(command: Sequence[str]) -> bool:
    """Whether a command line, wrapped in however many others, runs `waygraph [OPTIONS] mcp`.

    >>> starts_gateway(["sh", "-c", "exec uvx --from waygraph[onnx] waygraph --registry r.grafeo mcp"])
    True
    """
    runs_ours = may_be_value = False  # `mcp` follows our name, and between them are only options and their values
    for word in command:
        if runs_ours and word == _COMMAND:
            return True
        if _OURS.fullmatch(PurePath(word.replace("\\", "/")).name):
            runs_ours, may_be_value = True, False
            continue
        is_option = word.startswith("-")
        runs_ours = runs_ours and (is_option or may_be_value)
        may_be_value = is_option and "=" not in word
    lines = [(word, _split(word)) for word in command if _BLANK.search(word)]
    return any(starts_gateway(words) for line, words in lines if words != [line])  # some blanks part no words


def is_gateway(transport: object, service: str = "") -> bool:
    """Whether a launch or address, as a configuration writes it, is that of a gateway.

    `service`: the place of the registry; where that is a service, its endpoints are known.
    """
    if not isinstance(transport, Mapping):
        return False
    command, args, url, headers = (transport.get(name) for name in ("command", "args", "url", "headers"))
    words = [command, *(args if isinstance(args, (list, tuple)) else ())]
    if starts_gateway([word for word in words if isinstance(word, str)]):
        return True
    if isinstance(url, str) and _is_endpoint(url, service):
        return True
    return isinstance(headers, Mapping) and any(KEY in str(value) for value in headers.values())


def registry_of(transport: object) -> str:
    """The registry that a gateway's command names, as it is written there; empty: none."""
    return option_of(transport, _REGISTRY)


def option_of(transport: object, name: str) -> str:
    """What a gateway's command gives for an option; empty: nothing."""
    args = transport.get("args") if isinstance(transport, Mapping) else None
    words = args if isinstance(args, (list, tuple)) else ()
    return next((str(value) for option, value in pairwise(words) if option == name), "")


def launches_gateway(launch: Launch, service: str = "") -> bool:
    """The same of a launch, whose references are resolved."""
    if isinstance(launch, StdioLaunch):
        return starts_gateway([launch.command, *launch.args])
    return _is_endpoint(launch.url, service)


def omission(where: str, key: str) -> Rejected:
    return Rejected(where=where, reason=f"{key}: {LEFT_OUT}", key=key)


def is_gateway_name(name: str) -> bool:
    """Whether a server that calls itself so is a gateway."""
    return name.strip().casefold() == NAME


def _is_endpoint(url: str, service: str) -> bool:
    """`/mcp` of the service, or `/NAME/mcp`."""
    if not service.startswith(_HTTP):
        return False
    path = url.removeprefix(service)
    return path != url and re.fullmatch(r"(?:/[^/?#]+)?/mcp/?", path) is not None


def _split(line: str) -> list[str]:
    """The words of a line that a shell would run."""
    if len(line) <= _MAX_LINE_CHARS:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        with suppress(ValueError):  # such as a quotation mark that is not closed
            return list(lexer)
    return line.split()
