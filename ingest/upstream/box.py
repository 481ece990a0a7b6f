"""The box of a server that is started: what it may read, write and reach, by Landlock and seccomp (sandlock).

A profile is derived from the launch: the program's installation, what arguments and variables name, the registry that a
launcher fetches from, what its entry grants, and what an operator approved of what it asked for beyond that.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from threading import Thread
from urllib.parse import urlsplit

from waygraph.ingest.manifest.environment import inherited_variables, installer_addresses
from waygraph.ingest.manifest.fields import fields_of, items_of
from waygraph.ingest.manifest.records import Launch, ServerEntry, StdioLaunch
from waygraph.ingest.upstream.box_process import Rule
from waygraph.ingest.upstream.connection import Result
from waygraph.ingest.upstream.process_health import launcher_of
from waygraph.registry.model.box_wishes import WishFile, grants_of
from waygraph.registry.model.changes import OperatorSettings
from waygraph.registry.model.errors import UpstreamRefused
from waygraph.registry.model.identity import digest
from waygraph.registry.model.settings import Settings

_SYSTEM = (
    *"/usr /bin /sbin /lib /lib32 /lib64 /proc /dev/zero /dev/random /dev/urandom /sys/devices/system/cpu".split(),
    *"/etc/ssl/certs /etc/ssl/openssl.cnf /etc/pki/tls /etc/ca-certificates /etc/alternatives /etc/ld.so.cache".split(),
    *"/etc/hosts /etc/host.conf /etc/resolv.conf /etc/nsswitch.conf /etc/localtime /etc/mime.types".split(),
)
"""What every program needs, and holds no secret."""
_PACKAGE_MARKS = ("package.json", "pyproject.toml", "go.mod", "Cargo.toml", "deno.json")
_PROGRAMS = frozenset(".cjs .dll .jar .js .mjs .php .ps1 .py .pyz .rb .sh .ts".split())
_DATABASES = frozenset(".db .duckdb .jsonl .sqlite .sqlite3".split())
_PORTS = {
    **dict.fromkeys(("https", "wss"), 443),
    **dict.fromkeys(("http", "ws"), 80),
    **dict.fromkeys(("postgres", "postgresql"), 5432),
    **{"mongodb": 27017, "mysql": 3306, "redis": 6379, "rediss": 6379, "amqp": 5672},
}
_REGISTRIES = {
    **dict.fromkeys(("bun", "bunx", "npm", "npx", "pnpm", "pnpx", "yarn"), ("registry.npmjs.org:443",)),
    **dict.fromkeys(("uv", "uvx", "pipx"), ("pypi.org:443", "files.pythonhosted.org:443")),
    "deno": ("jsr.io:443", "registry.npmjs.org:443"),
}
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "container"})
_REFUSAL = re.compile(
    r"(?i)permission denied|not permitted|\bE(?:ACCES|PERM|CONNREFUSED|NOTFOUND|AI_AGAIN)\b|connection refused|"
    r"name resolution|not known|cannot find module|fetch failed|unable to open|connect(?:ion)? ?(?:error|issue)|"
    r"all connection attempts failed"
)
_HOST = re.compile(r"(?:ENOTFOUND |EAI_AGAIN |https?://|host[ =:']{1,3})((?:[\w-]{1,63}\.){1,8}[a-z]{2,63})")
MOST_WORDS_CHARS, MOST_HOSTS = 2_000, 3
"""Of an error, so much is looked at, and so many hosts in it are noted."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """`access`: reads, writes (and reads) or reaches. `what`: a path, or host:port. `why`: what it follows from.
    `server`: whose, among those of several.
    """

    access: str
    what: str
    why: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """What a server is confined to, and a folder of its own, which is its home."""

    program: str
    folder: Path
    grants: tuple[Grant, ...]
    note_wish: Callable[[str], None]

    def rules(self) -> list[Rule]:
        names = {"reads": "fs_read", "writes": "fs_write", "reaches": "net_allow"}
        paths = [("fs_read", path) for path in _SYSTEM if os.path.exists(path)]
        own = [("fs_write", str(self.folder)), ("fs_write", os.devnull)]
        return [*paths, *own, *((names[each.access], each.what) for each in self.grants)]

    def variables(self) -> dict[str, str]:
        """What a program needs to know: Git gives up where it may not read the system's configuration."""
        return {"HOME": str(self.folder), "TMPDIR": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}

    def advice(self, words: str) -> str:
        """How to grant what these words of the server say was refused; empty: they say nothing of that. Hosts in them
        are noted: which names it looks up a box does not learn.

        It tells nothing that the words do not: not what the box has, nor whether a path is there.
        """
        words = words[:MOST_WORDS_CHARS]
        if not _REFUSAL.search(words):
            return ""
        hosts = dict.fromkeys(f"{host}:443" for host in _HOST.findall(words))
        for address in [each for each in hosts if each not in {grant.what for grant in self.grants}][:MOST_HOSTS]:
            Thread(target=self.note_wish, args=(f"reaches {address}",)).start()  # it waits for a file's lock
        return (
            "it runs in a box, which may have refused this. An operator who trusts it with what it asked for sees that "
            "by `waygraph changes --waiting`, and grants it by `waygraph approve`, or by `isolate` in its entry"
        )

    def advise(self, result: Result) -> Result:
        """The result of a call, with the advice for an error that it tells."""
        if not result.get("isError"):
            return result
        content = list(items_of(result.get("content")))
        advice = self.advice(" ".join(str(fields_of(part).get("text", "")) for part in content))
        return {**result, "content": [*content, {"type": "text", "text": advice}]} if advice else result


@cache
def sandlock_library() -> str:
    """The path of sandlock's library. Raises UpstreamRefused where servers cannot be isolated."""
    if sys.platform != "linux":
        raise UpstreamRefused("cannot be isolated: only Linux can")
    spec = find_spec("sandlock")
    if spec is None or not spec.origin:
        raise UpstreamRefused("cannot be isolated: sandlock is missing; `pip install 'waygraph[isolate]'`")
    from ctypes import CDLL

    for path in sorted(Path(spec.origin).parent.glob("libsandlock_ffi*.so")):
        library = CDLL(str(path))
        version, least = library.sandlock_landlock_abi_version(), library.sandlock_min_landlock_abi()
        if version >= least:
            return str(path)
        raise UpstreamRefused(f"cannot be isolated: this kernel has Landlock ABI {max(version, 0)}, not {least}")
    raise UpstreamRefused("cannot be isolated: sandlock has no library for this system")


def box_of(launch: StdioLaunch, environment: Mapping[str, str], settings: Settings) -> Box | None:
    """None: it is not isolated. Raises UpstreamRefused where it cannot be and has to be, FileNotFoundError."""
    if not _is_boxed(launch, settings):
        return None
    sandlock_library()
    search = environment.get("PATH", os.defpath)
    program = which(str(Path(launch.cwd, launch.command)) if os.sep in launch.command else launch.command, path=search)
    if not program:
        raise FileNotFoundError(launch.command)
    name = digest("box", launch.command, *launch.args, *map("=".join, sorted(launch.env.items())))[:16]
    grants = {each.what: each for each in _grants(launch, environment, program)}
    return Box(program, settings.data_path / "boxes" / name, tuple(sorted(grants.values())), launch.note_wish)


def _is_boxed(launch: StdioLaunch, settings: Settings) -> bool:
    """Whether it is to start in a box: a container has limits of its own."""
    is_wanted = settings.isolate if launch.isolate is None else launch.isolate is not False
    return is_wanted and launcher_of(launch) not in _CONTAINERS


def with_grants(
    launch: Launch,
    settings: Settings,
    source: str,
    key: str,
    read_setting: Callable[[], OperatorSettings | None] = lambda: None,
) -> Launch:
    """With what an operator granted it on this machine, and where its further wishes are noted. Raises StorageFailed.

    `key`: the source's of the server. `read_setting`: of its agent; without, none is looked at, as before the graph is
    read.
    """
    if not isinstance(launch, StdioLaunch) or not _is_boxed(launch, settings):
        return launch
    file = WishFile.inside(settings.data_path)
    name = digest("launch", launch.command, *launch.args)
    grants = grants_of(file.of(name, source, key), read_setting())
    return replace(launch, grants=grants, note_wish=partial(file.note, name, source, key))


def profiles_of(servers: Iterable[ServerEntry], environ: Mapping[str, str], settings: Settings) -> list[Grant]:
    """What each server that is started may do, once servers are isolated. A command that is not there has no line."""
    rows = list[Grant]()
    for server in servers:
        if isinstance(launch := server.launch, StdioLaunch):
            with suppress(FileNotFoundError):
                grants = profile_of(launch, environ, replace(settings, isolate=True))
                why = "its entry says so" if launch.isolate is False else "a container confines it, and this does not"
                grants = [Grant("is not confined", "", why)] if grants is None else grants
                rows += [replace(each, server=server.key) for each in grants]
    return rows


def profile_of(launch: StdioLaunch, environ: Mapping[str, str], settings: Settings) -> Sequence[Grant] | None:
    """What a server may do; None: nothing confines it. Raises UpstreamRefused, FileNotFoundError."""
    box = box_of(launch, inherited_variables(environ, launch.env) | dict(launch.env), settings)
    return box.grants if box else None


def _grants(launch: StdioLaunch, environment: Mapping[str, str], program: str) -> Iterator[Grant]:
    """Of the same path or host the last counts."""
    for installation in _installations(program, environment.get("PATH", os.defpath)):
        yield Grant("reads", installation, "its program is there")
    if launcher := launcher_of(launch):
        addresses = [each for each in map(_endpoint, installer_addresses(environment)) if each]
        for host in (*_REGISTRIES.get(launcher, ()), *addresses):
            yield Grant("reaches", host, f"{launcher} fetches packages there")
    for why, texts in (("an argument names it", launch.args), ("a variable names it", launch.env.values())):
        for text in texts:
            value = text.partition("=")[2] if text.startswith("-") and "=" in text else text
            if host := _endpoint(value):
                yield Grant("reaches", host, why)
            elif path := _existing(value, launch.cwd):
                yield _of_path(path, why)
    for access, what in launch.isolate.items() if isinstance(launch.isolate, Mapping) else ():
        for each in what:
            yield Grant(access, each if access == "reaches" else os.path.expanduser(each), "its entry grants it")
    for access, _, each in (wish.partition(" ") for wish in launch.grants):
        if access == "reaches" or os.path.exists(each):
            yield Grant(access, each, "it asked for it, and an operator approved")


def _of_path(path: Path, why: str) -> Grant:
    """A folder or a file of data may be written; of a program its package is read."""
    if (path.suffix in _DATABASES or not path.exists()) and _is_below_home(path.parent):
        return Grant("writes", str(path.parent), why)  # it is made there, or its journal lies beside it
    if path.is_dir() or path.suffix not in _PROGRAMS:
        return Grant("writes", str(path), why)
    packages = [each for each in path.parents if any((each / mark).is_file() for mark in _PACKAGE_MARKS)]
    if folders := list(filter(_is_narrow, packages)):
        return Grant("reads", str(folders[-1]), "its program is there")  # the outermost holds what all need
    return Grant("reads", _installation(path), "its program is there")


def _existing(value: str, folder: str) -> Path | None:
    """A path that an argument names: absolute, or one that cannot be a mere word. What is not there may be made."""
    if not value or "\0" in value or not ("/" in value or value.startswith(".")):
        return None
    path = Path(folder, value)
    try:
        is_there = path.exists() or (path.parent.is_dir() and _is_below_home(path.parent.resolve()))
        return path.resolve() if is_there else None
    except OSError:  # such as a text that is too long for a path
        return None


def _endpoint(text: str) -> str:
    """host:port of an address; empty: it is none."""
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{port}" if host and port else ""
    except ValueError:
        return ""


def _installations(program: str | None, search: str) -> Iterable[str]:
    """Where a program lies, and what it is a link to, and what its first line names."""
    folders, programs = list[str](), set[str]()
    while program and program not in programs:
        programs.add(program)
        target = os.path.realpath(program)
        folders += [_installation(Path(program)), _installation(Path(target))]
        with open(target, "rb") as file:
            first = file.readline(256)
        words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-")]
        program = which(words[0], path=search) if words else None
    return [each for each in dict.fromkeys(folders) if not each.startswith(_SYSTEM)]


def _installation(program: Path) -> str:
    """The folder of all that was installed with it; where that would open a home, only that of the programs."""
    if "node_modules" in program.parts:  # a package needs its siblings
        return str(Path(*program.parts[: program.parts.index("node_modules") + 1]))
    folder = program.parent
    if folder.name in ("bin", "sbin"):
        return str(folder.parent if _is_narrow(folder.parent) else folder)
    return str(folder if _is_narrow(folder) else program)


def _is_narrow(folder: Path) -> bool:
    """Whether it is below a home, and no folder right in it that may hold anything."""
    marks = ("pyvenv.cfg", *_PACKAGE_MARKS)
    return _is_below_home(folder) and (folder.parent != Path.home() or any((folder / mark).is_file() for mark in marks))


def _is_below_home(folder: Path) -> bool:
    """Whether it is neither a home, nor above one, nor right below the root."""
    return not Path.home().is_relative_to(folder) and len(folder.parts) > 2
