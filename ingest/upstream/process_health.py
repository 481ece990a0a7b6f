"""How a server's processes fare: whether one that fetches what it starts is still at work, why one failed, and what
they may take on Linux.

The first start of a command that fetches takes longer than any later one. It is told from a start that hangs by its
signs of life: what its processes compute, read and write, and what they say on standard error. The protocol is silent
until the server itself runs.

Of what a failing process wrote the last lines are reported: one of them says why it failed.

One thread reads /proc for the limits of memory and number. No limit of the kernel fits: Node.js, Bun and Java need
more address space than they use, the limit of processes counts a user's threads, and a container cannot make a control
group.
"""

import logging
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath
from shutil import which

from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.manifest.redaction import ESCAPES
from waygraph.ingest.upstream.reaper_process import Processes, end_server, folder_of, start_of, stat_of
from waygraph.registry.model.settings import Settings

MOST_TIMES = 10
"""So many times `upstream_connect_timeout_s` a start may take while it shows signs of life."""
LOOK_S = 1.0
"""Between two looks for a sign of life."""
COMES_WITH = {
    "bunx": "Bun", "deno": "Deno", "dnx": ".NET", "docker": "Docker", "node": "Node.js", "npx": "Node.js", "uv": "uv",
    "uvx": "uv",
}  # fmt: skip
"""What to install for the commands that most servers are started by."""
_FETCHING: dict[str, frozenset[str]] = {
    **dict.fromkeys(("bunx", "deno", "dnx", "jbang", "npx", "pnpx", "uvx"), frozenset[str]()),
    **dict.fromkeys(("docker", "nerdctl", "podman", "container"), frozenset({"run"})),
    **dict.fromkeys(("cargo", "go", "nix", "pipx"), frozenset({"run"})),
    "bun": frozenset({"x"}),
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"dlx"}),
    "uv": frozenset({"run", "tool", "x"}),
    "yarn": frozenset({"dlx"}),
}
"""Programs, each with the subcommands of which one must be given; empty: whatever is given."""
_FIRST_WORDS = 8
"""Of a command, where a shell or `env` stands before the program itself."""
_PULL = re.compile(r"(?i)unable to find image|trying to pull|pulling from")
_PULL_END = re.compile(r"(?i)status: downloaded|writing manifest")
_LEAST_TICKS, _LEAST_BYTES = 2, 1024
"""Less than that between two looks does a program that only waits."""


def launcher_of(launch: StdioLaunch) -> str:
    """The name of the program that may have to fetch the server; empty: there is none."""
    words = [word for text in (launch.command, *launch.args[:_FIRST_WORDS]) for word in text.split()]
    for at, word in enumerate(words[:_FIRST_WORDS]):
        name = PurePath(word.replace("\\", "/")).name.lower().removesuffix(".exe").removesuffix(".cmd")
        if name in _FETCHING:
            return name if not _FETCHING[name] or not _FETCHING[name].isdisjoint(words[at + 1 :]) else ""
    return ""


def is_pulling(errors: str) -> bool:
    """Whether a daemon fetches an image for the process, which itself only waits."""
    starts = [match.end() for match in _PULL.finditer(errors)]
    return bool(starts) and not _PULL_END.search(errors, starts[-1])


@dataclass(frozen=True, slots=True)
class Activity:
    """What the processes of one session did by some moment. `is_known`: whether this system says so."""

    is_known: bool
    processes: frozenset[int] = frozenset()
    ticks: int = 0
    bytes: int = 0

    def is_sign_of_life(self, before: "Activity") -> bool:
        """What cannot be known is taken for one."""
        return (
            not self.is_known
            or self.processes != before.processes
            or self.ticks >= before.ticks + _LEAST_TICKS
            or self.bytes >= before.bytes + _LEAST_BYTES
        )


def activity_of(session: int) -> Activity:
    """As Linux tells it."""
    if not os.path.exists("/proc/self/stat"):
        return Activity(is_known=False)
    processes, ticks, byte_count = set[int](), 0, 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError, IndexError):  # it is gone, or another user's, whose bytes nobody may see
            fields = stat_of(f"/proc/{name}")
            if int(fields[3]) == session:
                processes.add(int(name))
                ticks += int(fields[11]) + int(fields[12])
                byte_count += sum(
                    int(line.split()[1]) for line in Path(f"/proc/{name}/io").read_text().splitlines()[:2]
                )
    return Activity(is_known=True, processes=frozenset(processes), ticks=ticks, bytes=byte_count)


_MOST_LINES = 6
"""Of a failing process's error output, from its end."""
_FRAME = re.compile(r"[\s|+]*(?:at\s|File \"|Traceback \(|\d+:\s|--?\w)|\s{4}(?!\s*\|)|\t|\W*$")
"""How a stack frame or an option of a help text begins, or a line of marks: of these there may be any number."""


def last_lines(output: str) -> str:
    """The last lines that are neither stack frames nor options of a help text, each once, as one line.

    If all lines are such, the last of these.
    """
    lines = [line for line in ESCAPES.sub("", output).splitlines() if line.strip()]
    telling = [line for line in lines if not _FRAME.match(line)] or lines
    return " ".join(list(dict.fromkeys(reversed(telling)))[_MOST_LINES - 1 :: -1])


FIRST_LOOK_S, LONGEST_LOOK_S = 0.1, 1.0
"""Between two looks: the first after a start, and while a server beyond half of a limit grows; the longest."""
_PAUSE_TIMES = 50
"""The longest pause is this many times as long as a look, on a machine of very many processes."""
_PARENT_ENDED = "ended the process that watches over it"
_MIB = 1024 * 1024
_FIRST_TO_END = "500"
"""Of 1000: if a machine or a container has no memory left, the kernel ends a server and not Waygraph."""
_RAISING = frozenset({"apptainer", "podman", "singularity", "snap"})
"""Programs that start setuid programs."""
_log = logging.getLogger("waygraph.gateway")


@cache
def missing_limits() -> str:
    """Which limits this system cannot keep, in words; empty: it keeps all."""
    if sys.platform != "linux":
        return "servers that are started here have no limit of memory, processes or privileges: only Linux has them"
    if not os.access("/proc/self/stat", os.R_OK):
        return "servers that are started here have no limit of memory or processes: /proc is not there"
    return ""


def limits_in_words(settings: Settings) -> str:
    """Those that a server gets where this system can keep them."""
    memory = f"{settings.server_memory_mib:,} MiB of memory" if settings.server_memory_mib else "any memory"
    count = f"{settings.server_max_processes:,}" if settings.server_max_processes else "any number of"
    return f"each that is started may take {memory} and {count} processes, and gets no new privileges"


@cache
def log_missing_limits() -> None:
    """Once a process."""
    if missing := missing_limits():
        _log.warning(missing)


def raises_privileges(command: str, environment: Mapping[str, str]) -> bool:
    """Whether a program is setuid, has capabilities, or is known to start such programs: the others get no new ones."""
    path = which(command, path=environment.get("PATH"))
    if not path:
        return False
    program = Path(path).resolve()
    with suppress(OSError):
        if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) or "security.capability" in os.listxattr(program):
            return True
    return not _RAISING.isdisjoint({Path(command).name, program.name})


@dataclass(slots=True)
class _Server:
    memory_mib: int
    process_count: int
    on_excess: Callable[[str], None]
    parent_start: int | None
    """As `start_of`."""
    members: dict[int, int] = field(default_factory=dict)
    """Its processes at the last look, as `Processes.of_server`."""
    share: float = 0.0
    """Of what is allowed, at the last look."""

    def is_growing(self, process_count: int, resident_mib: int) -> bool:
        """Whether it came nearer to a limit since the last look."""
        before = self.share
        memory = resident_mib / self.memory_mib if self.memory_mib else 0.0
        self.share = max(memory, process_count / self.process_count if self.process_count else 0.0)
        return self.share > max(0.5, before + 0.01)


class LimitWatch:
    """Ends servers that exceed their limits. Thread-safe; one for the whole process.

    To a server belong all descendants of its parent (reaper_process.py), and what was one of them at the last look.
    """

    def __init__(self) -> None:
        self._servers: dict[int, _Server] = {}
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def watch_over(self, server: int, settings: Settings, on_excess: Callable[[str], None]) -> None:
        """`server`: the number of its parent. `on_excess` gets the reason in another thread, before the kill."""
        with suppress(OSError):
            Path(f"/proc/{server}/oom_score_adj").write_text(_FIRST_TO_END)
        log_missing_limits()
        if missing_limits() or not (settings.server_memory_mib or settings.server_max_processes):
            return
        with self._lock:
            limits = settings.server_memory_mib, settings.server_max_processes
            self._servers[server] = _Server(*limits, on_excess, start_of(server))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="limits", daemon=True)
                self._thread.start()
        self._wake.set()

    def let_go(self, server: int) -> None:
        with self._lock:
            self._servers.pop(server, None)

    def forget(self) -> None:
        """In a forked child, which has neither the thread nor the servers."""
        self._servers, self._lock, self._wake, self._thread = {}, threading.Lock(), threading.Event(), None

    def _run(self) -> None:
        pause_s = FIRST_LOOK_S
        while True:
            if self._wake.wait(pause_s):
                self._wake.clear()
                pause_s = FIRST_LOOK_S
            with self._lock:
                if not self._servers:
                    self._thread = None
                    return
            begin_s = time.monotonic()
            is_growing = self._look()
            longest_s = max(LONGEST_LOOK_S, _PAUSE_TIMES * (time.monotonic() - begin_s))
            pause_s = FIRST_LOOK_S if is_growing else min(2 * pause_s, longest_s)

    def _look(self) -> bool:
        """Ends servers that take too much. Whether one grows towards a limit."""
        try:
            processes = Processes()
        except OSError as error:
            _log.warning("the memory and processes of servers cannot be read now: %s", error)
            return False
        is_growing = False
        with self._lock:
            servers = list(self._servers.items())
        for number, server in servers:
            server.members = processes.of_server(number, server.members)
            resident_mib = sum(processes.resident_bytes[each] for each in server.members) // _MIB
            is_growing |= server.is_growing(len(server.members), resident_mib)
            is_alone = server.parent_start is not None and server.parent_start != processes.starts.get(number)
            # Without the lock: it may take seconds, and the event loop needs the lock to start and to end servers.
            excess = _PARENT_ENDED if is_alone and server.members else _excess(resident_mib, server)
            if excess and self._end(number, server, excess):
                _log.warning("server %d was ended: %s", number, excess)
        return is_growing

    def _end(self, number: int, server: _Server, reason: str) -> bool:
        """Whether it was still watched over: one that is let go must not be killed, its number may be another's."""
        with self._lock:
            if self._servers.get(number) is not server:
                return False
            del self._servers[number]
            server.on_excess(reason)
            end_server(number, server.members)
            return True


def _excess(resident_mib: int, server: _Server) -> str:
    """The reason in words; empty: within the limits. Shared memory counts once, which takes longer to read."""
    if 0 < server.process_count < len(server.members):
        return (
            f"had {len(server.members):,} processes, {server.process_count:,} are allowed "
            "(WAYGRAPH_SERVER_MAX_PROCESSES; 0: no limit)"
        )
    if 0 < server.memory_mib < resident_mib:
        taken_mib = sum(map(own_bytes, server.members)) // _MIB
        if taken_mib > server.memory_mib:
            return (
                f"took {taken_mib:,} MiB of memory, {server.memory_mib:,} are allowed "
                "(WAYGRAPH_SERVER_MEMORY_MIB; 0: no limit)"
            )
    return ""


def own_bytes(process: int) -> int:
    """The proportional share (PSS) of its memory; the unshared part where the system does not tell PSS."""
    with suppress(OSError):
        for line in (Path(folder_of(process)) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError):
        pages = (Path(folder_of(process)) / "statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


LIMITS = LimitWatch()
os.register_at_fork(after_in_child=LIMITS.forget)
