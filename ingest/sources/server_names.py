"""Names for servers that a person points at without naming them: by their command or their address."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from waygraph.ingest.manifest.transport import references_only, without_path_keys

_RUNNERS = {
    "npx", "bunx", "uvx", "pipx", "uv", "pnpm", "yarn", "bun", "deno", "node", "python", "docker", "podman",
}  # fmt: skip
"""Programs that start another one, which is what a server is named for."""
_SUB_COMMANDS = {"run", "dlx", "exec", "tool", "x"}
"""Of runners."""
_CONTAINERS = {"docker", "podman"}
_TAKE_A_VALUE = {
    "-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "-p", "--publish", "--network", "-w",
    "--workdir", "-u", "--user", "--platform",
}  # fmt: skip
"""Of what runs containers."""
_TAKE_A_VALUE_ELSEWHERE = {"--from", "--with", "--python", "--directory", "--project", "--package", "-p", "-m"}
_NAMING_FLAGS = {"-m"}
_PLAIN_STEMS = {"index", "main", "server", "cli", "app", "run", "__main__"}
_LAST_PARTS = {"mcp", "sse"}


def key_of_command(command: Sequence[str]) -> str:
    """What a command starts: `server-git` of `npx -y @acme/server-git@1.2 --read-only`; the program if nothing tells.

    >>> key_of_command(["uvx", "mcp-server-time"])
    'mcp-server-time'
    """
    words = iter(command)
    runs_another = False
    take_a_value = _TAKE_A_VALUE_ELSEWHERE
    for word in words:
        if word in take_a_value:
            value = next(words, "")
            if word in _NAMING_FLAGS and value:
                return _plain(value)
        elif _program(word) in _RUNNERS:
            runs_another = True
            take_a_value = _TAKE_A_VALUE if _program(word) in _CONTAINERS else _TAKE_A_VALUE_ELSEWHERE
        elif not word.startswith("-") and not (runs_another and word in _SUB_COMMANDS):
            return _plain(word)
    return _plain(command[0]) if command else ""


def key_of_url(url: str) -> str:
    """Host, a port that is not the scheme's, and what of the path tells servers of one host apart.

    >>> key_of_url("https://tools.example.com/billing/mcp?key=abc")
    'tools.example.com/billing'
    """
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    host = parts.hostname or "host"
    path = [part for part in parts.path.split("/") if part and not part.startswith("${")]
    while path and path[-1] in _LAST_PARTS:
        path.pop()
    return "/".join([host if parts.port in (None, usual) else f"{host}-{parts.port}", *path])


def name_of_command(command: Sequence[str]) -> str:
    """The command line as a source's name, references in place of what may be secrets."""
    program, *arguments = command
    transport = references_only({"command": program, "args": arguments})
    return shlex.join(
        [str(transport["command"]), *(without_path_keys(str(word)) for word in _list_of(transport["args"]))]
    )


def printable_source(text: str) -> str:
    """What a person wrote, as it may be printed: an address with references in place of what may be secrets."""
    if "://" not in text:
        return text
    try:
        return without_path_keys(str(references_only({"url": text})["url"]))
    except ValueError:
        return f"{text.partition('://')[0]}://…"


def _program(word: str) -> str:
    """`python` of `/usr/bin/python3.12`."""
    return re.sub(r"[\d.]+$", "", PurePosixPath(word).name)


def _plain(word: str) -> str:
    """Without folder, scope, version, tag or extension."""
    path = PurePosixPath(word)
    name = re.split(r"(?<=.)[@:]", path.name, maxsplit=1)[0].lstrip("@")
    stem = re.sub(r"\.(?:py|m?js|cjs|ts|jar|exe)$", "", name)
    if stem in _PLAIN_STEMS and path.parent.name and stem != name:
        return _plain(path.parent.name)
    return stem or word


def _list_of(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()
